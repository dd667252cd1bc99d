"""The interface through which the head reports events to its gang scheduler, and NullGangScheduler
for a head that has no gangs yet. The code of queues and gangs takes a quarter of a second to
import, so the head creates the gang scheduler only when a request first needs it.
"""

from __future__ import annotations

from typing import Protocol

from phalanx.head.nodes.record import NodeRecord
from phalanx.model.ids import GroupId
from phalanx.protocol.bundle_messages import (
    BundleInventory,
    BundlesGone,
    Committed,
    LogRead,
    MemberNews,
    MemberPrepares,
    MemberUsed,
    MemberUseRead,
    Prepared,
    RunNews,
    StepEnded,
    StepStarted,
)

Held = tuple[GroupId, int, int, bool]
"""A bundle that a node holds: an entry of `BundleInventory.held`."""


class GangSchedulerInterface(Protocol):
    """The events that the head reports to the gang scheduler. `now` is in seconds of the head's
    clock.
    """

    def node_changed(self, record: NodeRecord) -> None:
        """Note that a node is about to join, is draining, or has different totals."""
        ...

    def inventory(self, node_id: str, there: BundleInventory, now: float) -> list[Held]:
        """Compare a joining node's bundles with the gangs. Returns the bundles that belong to no
        gang.
        """
        ...

    def succeeded(self, former: str, node_id: str, there: BundleInventory) -> None:
        """Let members of the node `former` continue at that node's next process, which has their
        bundles.
        """
        ...

    def node_joined(self, record: NodeRecord) -> None:
        """Handle a new connection of a node, which may have been connected before. `inventory` was
        called before this method.
        """
        ...

    def node_away(self, node_id: str) -> None:
        """Note that a node's connection has ended. The node may come back."""
        ...

    def node_reported(self, node_id: str, is_news: bool) -> None:
        """Handle a node's report of its free resources. `is_news`: whether the report differs from
        what the head expected.
        """
        ...

    def node_dead(self, record: NodeRecord, now: float) -> None:
        """Release all places that members had on a dead node."""
        ...

    def vacate(self, node_id: str) -> None:
        """Evict all members from a node that must be empty now."""
        ...

    def prepared(self, node_id: str, message: Prepared, now: float) -> None:
        """Handle a node's answer to a prepare request: the node has set the bundles aside, or
        reports why it cannot.
        """
        ...

    def committed(self, node_id: str, message: Committed, now: float) -> None:
        """Handle a node's answer to a commit request: the node keeps the bundles, or had already
        given them back.
        """
        ...

    def returned(self, node_id: str, message: BundlesGone) -> None:
        """Handle a node's report that it has freed bundles."""
        ...

    def member_news(
        self,
        node_id: str,
        message: MemberNews | MemberPrepares | MemberUsed | RunNews | StepEnded,
    ) -> None:
        """Handle a node's report about a job. The report says one of these things: a member's
        environment is being prepared or is ready (MemberPrepares), a member runs or has ended
        (MemberNews), how much a member used that lost its place (MemberUsed), tasks of a run have
        ended (RunNews), or a task of a step has ended (StepEnded).
        """
        ...

    def node_answered(self, message: LogRead | MemberUseRead | StepStarted) -> None:
        """Handle a node's message about a member: a part of its log, its usage, or that a step
        started.
        """
        ...

    def creator_gone(self, process: bytes) -> None:
        """Remove the gangs that belong to a process that has ended."""
        ...

    def bundle_left(self, group: GroupId, index: int) -> None:
        """End the member in this bundle, because its actor is permanently dead."""
        ...

    def tick(self, now: float) -> None:
        """Do what is due at this time."""
        ...

    def clock_stepped(self, step_s: float) -> None:
        """Shift the recorded times after the clock was stepped by this many seconds."""
        ...

    def round(self, now: float) -> float:
        """Run a cycle if one is due, after all received messages have been handled. Returns the
        time of the next call if no message comes earlier.
        """
        ...


class NullGangScheduler:
    """The gang scheduler of a head without gangs: no event has consequences."""

    def node_changed(self, record: NodeRecord) -> None:
        """Do nothing: there are no gangs."""

    def inventory(self, node_id: str, there: BundleInventory, now: float) -> list[Held]:
        """Return all bundles of the node: without gangs, every bundle belongs to no gang."""
        return there.held

    def succeeded(self, former: str, node_id: str, there: BundleInventory) -> None:
        """Do nothing: no member was on the node."""

    def node_joined(self, record: NodeRecord) -> None:
        """Do nothing: there are no queues whose weights the node needs."""

    def node_away(self, node_id: str) -> None:
        """Do nothing: there are no gangs."""

    def node_reported(self, node_id: str, is_news: bool) -> None:
        """Do nothing: no cycle waits for free resources."""

    def node_dead(self, record: NodeRecord, now: float) -> None:
        """Do nothing: no member was on the node."""

    def vacate(self, node_id: str) -> None:
        """Do nothing: no member is on the node."""

    def prepared(self, node_id: str, message: Prepared, now: float) -> None:
        """Do nothing: no attempt is under way."""

    def committed(self, node_id: str, message: Committed, now: float) -> None:
        """Do nothing: no attempt is under way."""

    def returned(self, node_id: str, message: BundlesGone) -> None:
        """Do nothing: no node was asked to give bundles back."""

    def member_news(
        self,
        node_id: str,
        message: MemberNews | MemberPrepares | MemberUsed | RunNews | StepEnded,
    ) -> None:
        """Do nothing: there are no jobs."""

    def node_answered(self, message: LogRead | MemberUseRead | StepStarted) -> None:
        """Do nothing: the node was asked nothing."""

    def creator_gone(self, process: bytes) -> None:
        """Do nothing: the process created no gang."""

    def bundle_left(self, group: GroupId, index: int) -> None:
        """Do nothing: the bundle belongs to no gang."""

    def tick(self, now: float) -> None:
        """Do nothing: nothing is due."""

    def clock_stepped(self, step_s: float) -> None:
        """Do nothing: no times were recorded."""

    def round(self, now: float) -> float:
        """Decide nothing; no next call is needed."""
        return float("inf")
