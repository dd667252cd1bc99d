"""The accounts under which work runs, on clusters where jobs run as their submitters (mode
*system*).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from phalanx.model.ids import JobId
from phalanx.protocol.bundle_messages import Grant


class Grants(Protocol):
    """Decides under which account a member runs."""

    def grant(
        self, user: str, job: JobId, attempt: int, node: str, devices: Sequence[int]
    ) -> Grant | None:
        """Return the grant for a member on the node with this name; None means the node's own
        account.
        """
        ...


class NoGrants:
    """The grants of a cluster in which work runs under the accounts of its nodes."""

    def grant(
        self, user: str, job: JobId, attempt: int, node: str, devices: Sequence[int]
    ) -> Grant | None:
        """Return None: the member runs under the node's account."""
        return None
