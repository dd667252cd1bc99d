"""What the control store reports to its gang scheduler, and who hears it while there is none.

Queues and gangs need code that takes a quarter of a second to import, so they are made when
somebody first asks for any. Until then nothing has to be done about them.
"""

from __future__ import annotations

from typing import Protocol

from phalanx.head.nodes import NodeRecord
from phalanx.protocol.bundle_messages import (
    BundleInventory,
    BundlesGone,
    Committed,
    LogRead,
    MemberNews,
    MemberUsed,
    Prepared,
    StepEnded,
    StepStarted,
)

Held = tuple[bytes, int, int, bool]
"""A bundle that a node holds: see BundleInventory."""


class GangSchedulerInterface(Protocol):
    """What happens outside of the gang scheduler. `now` is in seconds of the head's clock."""

    def node_changed(self, record: NodeRecord) -> None:
        """A node is about to join, drains, or has other totals."""
        ...

    def inventory(self, node_id: str, there: BundleInventory, now: float) -> list[Held]:
        """A node joined with these bundles. Those of them that are none of a gang's."""
        ...

    def node_joined(self, record: NodeRecord) -> None:
        """A node is connected, for the first time or again, and `inventory` was called."""
        ...

    def node_away(self, node_id: str) -> None:
        """A node's connection has ended; it may come back."""
        ...

    def node_reported(self, node_id: str, is_news: bool) -> None:
        """A node has reported what it has free; `is_news`: that is not what was expected."""
        ...

    def node_dead(self, record: NodeRecord, now: float) -> None:
        """A node is given up."""
        ...

    def vacate(self, node_id: str) -> None:
        """A node has to be empty now."""
        ...

    def prepared(self, node_id: str, message: Prepared, now: float) -> None:
        """A node has set bundles aside, or says why it cannot."""
        ...

    def committed(self, node_id: str, message: Committed, now: float) -> None:
        """A node keeps bundles, or had given them back already."""
        ...

    def returned(self, node_id: str, message: BundlesGone, now: float) -> None:
        """A node has freed bundles."""
        ...

    def member_news(self, node_id: str, message: MemberNews | MemberUsed | StepEnded) -> None:
        """A job's member runs, or has ended; what it used that lost its place; how a task of a
        step has ended."""
        ...

    def node_answered(self, message: LogRead | StepStarted) -> None:
        """A node has read a part of a log, or says whether a step begins."""
        ...

    def creator_gone(self, process: bytes, now: float) -> None:
        """A process has ended."""
        ...

    def bundle_left(self, group: bytes, index: int) -> None:
        """The actor that lived in a bundle is dead for good."""
        ...

    def tick(self, now: float) -> None:
        """Time has passed."""
        ...

    def clock_stepped(self, step_s: float) -> None:
        """The time of day was stepped by so much: moments that were noted move along."""
        ...

    def round(self, now: float) -> float:
        """All messages that had come are handled. When to call again, if nothing comes."""
        ...


class NullGangScheduler:
    """There are no gangs: nothing follows from anything."""

    def node_changed(self, record: NodeRecord) -> None:
        """See GangSchedulerInterface."""

    def inventory(self, node_id: str, there: BundleInventory, now: float) -> list[Held]:
        """See GangSchedulerInterface."""
        return there.held

    def node_joined(self, record: NodeRecord) -> None:
        """See GangSchedulerInterface."""

    def node_away(self, node_id: str) -> None:
        """See GangSchedulerInterface."""

    def node_reported(self, node_id: str, is_news: bool) -> None:
        """See GangSchedulerInterface."""

    def node_dead(self, record: NodeRecord, now: float) -> None:
        """See GangSchedulerInterface."""

    def vacate(self, node_id: str) -> None:
        """See GangSchedulerInterface."""

    def prepared(self, node_id: str, message: Prepared, now: float) -> None:
        """See GangSchedulerInterface."""

    def committed(self, node_id: str, message: Committed, now: float) -> None:
        """See GangSchedulerInterface."""

    def returned(self, node_id: str, message: BundlesGone, now: float) -> None:
        """See GangSchedulerInterface."""

    def member_news(self, node_id: str, message: MemberNews | MemberUsed | StepEnded) -> None:
        """See GangSchedulerInterface."""

    def node_answered(self, message: LogRead | StepStarted) -> None:
        """See GangSchedulerInterface."""

    def creator_gone(self, process: bytes, now: float) -> None:
        """See GangSchedulerInterface."""

    def bundle_left(self, group: bytes, index: int) -> None:
        """See GangSchedulerInterface."""

    def tick(self, now: float) -> None:
        """See GangSchedulerInterface."""

    def clock_stepped(self, step_s: float) -> None:
        """See GangSchedulerInterface."""

    def round(self, now: float) -> float:
        """See GangSchedulerInterface."""
        return float("inf")
