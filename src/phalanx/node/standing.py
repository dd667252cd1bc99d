"""Whether the head still counts on this node, as far as the node can know.

A head gives a node up after some seconds without a report, and then starts the node's work
elsewhere. An older order of the head may reach the node after that, because the node, its gateway
or its machine stood still. So the node begins work only if it knows that a recent report has
reached the head. The head confirms the latest report before each order that begins work, and when a
report asks for that. Times are on a clock that runs even while the process stands still.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from phalanx.protocol.membership_messages import BeginLease

NUMBERED_EVERY_S = 0.05
"""The least time, in seconds, between two reports that get different numbers."""
ASKED_AFTER_S = 0.5
"""While work runs here, reports ask for an answer if the last report that is known to have arrived
was sent more than this number of seconds ago.
"""


class Standing:
    """Keeps track of the reports that have reached the head, and decides whether work may begin."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` returns seconds that also pass while this process or its machine stands still."""
        self._clock = clock
        self._is_admitted = False
        self._lease: BeginLease | None = None
        """How long the node may begin work without an answer of the head. None if the node is not
        admitted yet, or if the head sets no limit, as in a cluster of one node.
        """
        self._sent: deque[tuple[int, float]] = deque()
        """The numbers and times of reports that may still be answered."""
        self._count = 0
        self._arrived_at = 0.0
        """The time of sending of the latest report that is known to have reached the head."""
        self._sure_until = 0.0
        self._doubt_since: float | None = None
        """The time since which work waits, because the head may have given this node up; None if no
        work waits.
        """
        self.must_ask = False
        """Whether a report must be sent immediately, because work waits for its answer."""

    def joined(self, lease: BeginLease | None, asked_at: float) -> None:
        """Note that the head has admitted the node. `asked_at`: the time when the request to join
        was sent. `lease`: for how long a report that reached the head lets work begin; None for no
        limit.
        """
        self._is_admitted = True
        self._lease = lease
        self._sent.clear()
        if lease is not None:
            self._arrived(lease, asked_at)

    def now(self) -> float:
        """Return the present time of the clock that also runs during pauses."""
        return self._clock()

    def is_sure(self) -> bool:
        """Whether work may begin now. If not, the next report asks the head for a confirmation."""
        now = self._clock()
        if self._is_admitted and (self._lease is None or now < self._sure_until):
            return True
        if self._doubt_since is None:
            self._doubt_since = now
            self.must_ask = True
        return False

    def next_report(self, is_busy: bool) -> tuple[int, bool]:
        """Return the number of the report that is sent now (0 for a report without a number), and
        whether the report asks for a confirmation. `is_busy`: whether work runs on this node.
        """
        lease = self._lease
        if lease is None:
            return 0, False
        now, doubt = self._clock(), self._doubt_since
        self.must_ask = False
        while self._sent and now - self._sent[0][1] >= lease.answered_s:
            self._sent.popleft()
        last_at = self._sent[-1][1] if self._sent else float("-inf")
        if now - last_at >= NUMBERED_EVERY_S or (doubt is not None and last_at < doubt):
            self._count += 1
            self._sent.append((self._count, now))
        return self._count, doubt is not None or (
            is_busy and now - self._arrived_at >= ASKED_AFTER_S
        )

    def heard(self, number: int) -> None:
        """Note that the head has got the report with this number."""
        while self._sent and self._sent[0][0] <= number:
            at, sent_at = self._sent.popleft()
            if at == number and self._lease is not None:
                self._arrived(self._lease, sent_at)

    def _arrived(self, lease: BeginLease, sent_at: float) -> None:
        now, doubt = self._clock(), self._doubt_since
        self._arrived_at = sent_at
        self._sure_until = sent_at + lease.sure_s
        if doubt is not None and sent_at >= doubt and now < sent_at + lease.answered_s:
            # The head has answered after the doubt arose, so its connection to this node was whole.
            self._sure_until = max(self._sure_until, now + lease.sure_s / 2)
        if now < self._sure_until:
            self._doubt_since = None
            self.must_ask = False


def always_sure() -> bool:
    """Return True, for a node whose head is in the node's own process."""
    return True
