"""The accounts under which work runs, on clusters where jobs run as their submitters (mode
*system*).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from phalanx.model.ids import GangId, JobId
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

    def secret(self, user: str, job: JobId, gang: GangId) -> str:
        """Return a secret that only the members of a gang get, always the same one, in the form of
        a cluster's token; empty where members run under the accounts of their nodes.
        """
        ...


class NoGrants:
    """The grants of a cluster in which work runs under the accounts of its nodes."""

    def grant(
        self, user: str, job: JobId, attempt: int, node: str, devices: Sequence[int]
    ) -> Grant | None:
        """Return None: the member runs under the node's account."""
        return None

    def secret(self, user: str, job: JobId, gang: GangId) -> str:
        """Return "": what runs under one account has no secrets within it."""
        return ""
