"""Decides when plans are made about the demands that wait here."""

from __future__ import annotations

from collections.abc import Callable

from phalanx.errors import PhalanxError
from phalanx.model.ids import PREFIX_BYTES
from phalanx.node.head_link import HeadLink, ask
from phalanx.node.leases.machine import LeaseMachine
from phalanx.node.no_other_nodes import Spills
from phalanx.protocol.cluster_messages import View, ViewRow
from phalanx.protocol.requests.view import GetViewChanges, ViewChanges

VIEW_AT_MOST_EVERY_S = 0.1
"""The least time, in seconds, between two requests for the view that ticks send."""
VIEW_OLD_AFTER_S = 0.5
"""The greatest age, in seconds, of a view that plans use. An older view is used only while the head
cannot be asked for a newer one.
"""


class PlanRequests:
    """Remembers whether a plan was requested in this round."""

    def __init__(self) -> None:
        self._is_wanted = False

    def request(self) -> None:
        """Request a plan, because something on which the plan depends has changed."""
        self._is_wanted = True

    def take(self) -> bool:
        """Return whether a plan was requested since the last call, and clear the request."""
        is_wanted, self._is_wanted = self._is_wanted, False
        return is_wanted


class ViewRefresh:
    """Keeps this node's view of the other nodes up to date while the node needs it."""

    def __init__(self, node: bytes, head: HeadLink, changed: Callable[[View], None]) -> None:
        """`node`: the id of the node's own process. `changed` is called with new rows."""
        self._node = node
        self._head = head
        self._changed = changed
        self._version = 0
        """The version of the view, by the head's count."""
        self._asked_at = float("-inf")
        self._is_asked = False

    @property
    def is_blind(self) -> bool:
        """Whether no news of other nodes arrives, because the head cannot be reached."""
        return not self._head.is_connected

    def tick(self, now: float, is_waiting: bool) -> None:
        """Request the view if it is time. `is_waiting`: whether any demand waits that other nodes
        could meet.
        """
        if is_waiting and not self.is_blind and now - self._asked_at >= VIEW_AT_MOST_EVERY_S:
            self._ask(now)

    def request_if_old(self, now: float) -> bool:
        """Request a newer view if the present view is old. Returns whether a newer view was
        requested and has not arrived.
        """
        if not self.is_blind and now - self._asked_at >= VIEW_OLD_AFTER_S:
            self._ask(now)
        return self._is_asked

    def head_lost(self) -> None:
        """Stop waiting for the answer of a lost head. The next head will be asked again."""
        self._is_asked = False

    def _ask(self, now: float) -> None:
        if self._is_asked:
            return
        self._is_asked, self._asked_at = True, now

        def answered(answer: Callable[[], ViewChanges]) -> None:
            self._is_asked = False
            try:
                changes = answer()
            except PhalanxError:
                return
            self._version = changes.version
            # The answer may have waited at the head, so this node's own news is newer. Newer news
            # of other nodes comes with the next answer, which has a later version.
            own = self._node[:PREFIX_BYTES]
            self._changed(View([row for row in changes.rows if row.prefix != own]))

        ask(self._head, self._node, GetViewChanges(self._version), answered)


class SpillbackPlanner:
    """Makes plans, at most one per round."""

    def __init__(
        self,
        clock: Callable[[], float],
        leases: LeaseMachine,
        spilling: Spills,
        view: ViewRefresh,
        requests: PlanRequests,
        own_row: Callable[[], ViewRow],
    ) -> None:
        self._clock = clock
        self._leases = leases
        self._spilling = spilling
        self._view = view
        self._requests = requests
        self._own_row = own_row

    def tick(self, now: float) -> None:
        """Request a plan for the demands that still wait."""
        self._view.tick(now, bool(self._leases.waiting))
        if not self._spilling.is_alone and self._leases.waiting:
            self._requests.request()

    def round(self) -> bool:
        """Make a plan if one was requested. Returns whether one was requested."""
        if not self._requests.take():
            return False
        now = self._clock()
        if self._spilling.is_alone:
            for demand in self._leases.waiting.all():
                demand.here = -1
        elif not self._view.request_if_old(now):
            # If a new view is awaited, it starts a plan when it arrives.
            self._spilling.put(self._own_row())
            self._spilling.plan(self._leases.waiting.all(), now, self._view.is_blind)
        self._leases.dispatch(now)
        return True
