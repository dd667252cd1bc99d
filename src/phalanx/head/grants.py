"""The accounts that work may run as, where it runs as its owners (the mode *system*)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from phalanx.model.ids import JobId
from phalanx.protocol.bundle_messages import Grant


class Grants(Protocol):
    """Says as which account a member runs."""

    def grant(
        self, user: str, job: JobId, attempt: int, node: str, devices: Sequence[int]
    ) -> Grant | None:
        """Return the grant for a member on the node with this name; None: the node's account."""
        ...


class NoGrants:
    """The grants of a cluster whose work runs as the accounts of its nodes."""

    def grant(
        self, user: str, job: JobId, attempt: int, node: str, devices: Sequence[int]
    ) -> Grant | None:
        """Return None."""
        return None
