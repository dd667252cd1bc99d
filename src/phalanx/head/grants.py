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
        """Return the grant of a member that runs on the node with this name; None if it runs under
        the node's own account.
        """
        ...

    def secret(self, user: str, job: JobId, gang: GangId) -> str:
        """Return a secret that only the members of the gang get, in the form of a cluster's token.
        Each call returns the same secret. Returns "" where members run under the accounts of their
        nodes.
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
        """Return "": members that run under one account cannot hide a secret from each other."""
        return ""
