"""What the parts of a node that bundles and commands need ask of the shell around them.

The embedded node is one such shell; the Ray engine has another on each of Ray's nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from phalanx.engines.embedded.session import Session
    from phalanx.node.bundle_table import BundleTable
    from phalanx.node.bundles import BundlePool
    from phalanx.node.control_link import ControlLink
    from phalanx.node.group_places import GroupPlaces
    from phalanx.node.groups import NodeGroups
    from phalanx.node.job_members import NodeMembers
    from phalanx.protocol.zygote_messages import ZygoteOrder


class Leases(Protocol):
    """Tasks and actors that run in bundles of this node."""

    @property
    def is_draining(self) -> bool:
        """Whether the node takes nothing new."""
        ...

    @property
    def groups(self) -> GroupPlaces:
        """What is known of placement groups."""
        ...

    def dispatch(self, now: float) -> None:
        """Bundles have come or gone."""
        ...

    def warn_in(self, pools: Sequence[BundlePool]) -> None:
        """These bundles are taken away after a grace."""
        ...

    def end_in(self, pools: Sequence[BundlePool], reason: str) -> None:
        """These bundles are taken away now."""
        ...


class BundleHost(Protocol):
    """A node that keeps bundles, and runs commands in them."""

    clock: Callable[[], float]

    @property
    def prefix(self) -> bytes:
        """With which the ids of its processes begin."""
        ...

    @property
    def session(self) -> Session:
        """Where its files are."""
        ...

    @property
    def bundles(self) -> BundleTable:
        """What is set aside here."""
        ...

    @property
    def leases(self) -> Leases:
        """Tasks and actors."""
        ...

    @property
    def groups(self) -> NodeGroups:
        """What gives bundles back."""
        ...

    @property
    def members(self) -> NodeMembers:
        """Commands that run in bundles."""
        ...

    @property
    def control(self) -> ControlLink:
        """The way to the control store."""
        ...

    def ask_zygote(self, order: ZygoteOrder) -> None:
        """Have a process started or signalled."""
        ...

    def plan_soon(self) -> None:
        """What is asked of other nodes is to be looked at again."""
        ...

    def report_soon(self) -> None:
        """What is free here has changed."""
        ...
