"""Requests to the head about reservations and licenses."""

from __future__ import annotations

from typing import ClassVar

from phalanx.model.reservations import Reservation
from phalanx.model.rights import Verb
from phalanx.model.rows.reservations import LicenseInfo, ReservationInfo
from phalanx.protocol.requests.request import EVERYBODY, Effect, Request, Role


class Reserve(Request[ReservationInfo]):
    """Make a reservation, or change the reservation of this name. Returns the reservation's row.

    Raises JobCommandError for a reservation that can never be kept, and for a new reservation whose
    name exists.
    """

    kind: ClassVar[int] = 121
    verb: ClassVar[Verb] = Verb.OPERATE
    effect: ClassVar[Effect] = Effect.ADDS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    spec: Reservation
    fields: tuple[str, ...] = ()
    """The names of the fields of `spec` to change in an existing reservation; empty to make a new
    reservation.
    """


class DeleteReservation(Request[None]):
    """Delete a reservation.

    Raises JobCommandError for an unknown reservation, and for a reservation with running jobs.
    """

    kind: ClassVar[int] = 122
    verb: ClassVar[Verb] = Verb.OPERATE
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    name: str


class ListReservations(Request[list[ReservationInfo]]):
    """List all reservations, by name."""

    kind: ClassVar[int] = 123
    verb: ClassVar[Verb] = Verb.SEE
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY


class SetLicense(Request[LicenseInfo]):
    """Set the number of the cluster's licenses of a kind, or remove the kind with 0. Returns the
    kind's row.

    Raises JobCommandError for an invalid name or number.
    """

    kind: ClassVar[int] = 124
    verb: ClassVar[Verb] = Verb.ADMINISTER
    effect: ClassVar[Effect] = Effect.ADDS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    name: str
    total: int


class ListLicenses(Request[list[LicenseInfo]]):
    """List all kinds of licenses, by name."""

    kind: ClassVar[int] = 125
    verb: ClassVar[Verb] = Verb.SEE
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY
