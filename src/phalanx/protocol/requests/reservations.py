"""What the head answers about reservations and licences."""

from __future__ import annotations

from typing import ClassVar

from phalanx.model.reservations import Reservation
from phalanx.model.rows.reservations import LicenseInfo, ReservationInfo
from phalanx.protocol.requests.request import EVERYBODY, Effect, Request, Role


class Reserve(Request[ReservationInfo]):
    """Make a reservation, or change the one of its name; its row. Raises JobCommandError for one
    that can never be kept, and for one to be made that is there."""

    kind: ClassVar[int] = 121
    effect: ClassVar[Effect] = Effect.ADDS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    spec: Reservation
    fields: tuple[str, ...] = ()
    """Of one that is there: the fields of `spec` that it is to have from now on. None: make it."""


class DeleteReservation(Request[None]):
    """Forget a reservation. Raises JobCommandError for one that there is not, and for one that jobs
    run in."""

    kind: ClassVar[int] = 122
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    name: str


class ListReservations(Request[list[ReservationInfo]]):
    """All reservations, by name."""

    kind: ClassVar[int] = 123
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY


class SetLicense(Request[LicenseInfo]):
    """The cluster has so many licences of a kind from now on; 0: none any more. Its row. Raises
    JobCommandError for a name or a count that cannot be."""

    kind: ClassVar[int] = 124
    effect: ClassVar[Effect] = Effect.ADDS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    name: str
    total: int


class ListLicenses(Request[list[LicenseInfo]]):
    """All kinds of licences, by name."""

    kind: ClassVar[int] = 125
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY
