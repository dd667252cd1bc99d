"""When a node may begin work: only while it knows that a recent report of it has reached the
head.
"""

from __future__ import annotations

from phalanx.head.nodes.liveness import HealthLimits
from phalanx.node.standing import Standing
from phalanx.protocol.membership_messages import BeginLease

LEASE = BeginLease(sure_s=1.8, answered_s=13.5)


class Node:
    """A node's permission to begin work, on a clock that also runs while the node is stopped."""

    def __init__(self, lease: BeginLease | None = LEASE) -> None:
        self.now = 100.0
        self.standing = Standing(lambda: self.now)
        self.standing.joined(lease, self.now)

    def passes(self, seconds: float) -> None:
        self.now += seconds

    def reports(self, *, is_busy: bool = False) -> tuple[int, bool]:
        return self.standing.next_report(is_busy)


def test_a_node_that_no_head_has_admitted_begins_nothing() -> None:
    standing = Standing(lambda: 100.0)
    assert not standing.is_sure()
    assert standing.next_report(is_busy=True) == (0, False)
    standing.joined(LEASE, 100.0)
    assert standing.is_sure()


def test_a_node_may_begin_until_its_lease_is_over() -> None:
    node = Node()
    node.passes(1.7)
    assert node.standing.is_sure()
    node.passes(0.2)
    assert not node.standing.is_sure()


def test_the_lease_counts_from_the_sending_of_a_report_and_not_from_the_answer() -> None:
    node = Node()
    number, _ = node.reports()
    node.passes(1.5)
    node.standing.heard(number)
    node.passes(0.4)
    assert not node.standing.is_sure()


def test_a_node_in_doubt_asks_at_once_and_begins_when_the_head_answers() -> None:
    node = Node()
    node.passes(60.0)
    must_ask = [node.standing.must_ask]
    assert not node.standing.is_sure()
    must_ask.append(node.standing.must_ask)
    number, is_asking = node.reports()
    assert is_asking
    must_ask.append(node.standing.must_ask)
    assert must_ask == [False, True, False], "one report asks"
    node.passes(5.0)  # a head that is busy with a cycle
    node.standing.heard(number)
    assert node.standing.is_sure()
    assert not node.reports()[1]


def test_an_answer_to_a_report_of_before_the_pause_lets_nothing_begin() -> None:
    node = Node()
    node.passes(1.0)
    number, _ = node.reports()
    node.passes(20.0)
    assert not node.standing.is_sure()
    node.standing.heard(number)
    assert not node.standing.is_sure()


def test_an_answer_that_comes_later_than_the_head_waits_lets_nothing_begin() -> None:
    node = Node()
    node.passes(60.0)
    assert not node.standing.is_sure()
    number, _ = node.reports()
    node.passes(13.6)
    node.standing.heard(number)
    assert not node.standing.is_sure()
    assert node.reports()[1], "it asks again"


def test_reports_within_a_moment_share_a_number_unless_work_has_begun_to_wait() -> None:
    node = Node()
    node.passes(1.79)
    first, _ = node.reports()
    node.passes(0.01)
    assert node.reports() == (first, False)
    assert not node.standing.is_sure()
    node.passes(0.01)
    assert node.reports() == (first + 1, True)


def test_a_busy_node_asks_regularly_and_an_idle_one_does_not() -> None:
    node = Node()
    asked = []
    for is_busy in (True, True, True, False, False, True):
        node.passes(1.0)
        number, is_asking = node.reports(is_busy=is_busy)
        asked.append(is_asking)
        if is_asking:
            node.standing.heard(number)
    assert asked == [True, True, True, False, False, True]


def test_joining_again_is_an_answer() -> None:
    node = Node()
    node.passes(60.0)
    assert not node.standing.is_sure()
    node.standing.joined(LEASE, node.now)
    assert node.standing.is_sure()
    assert not node.standing.must_ask


def test_a_head_without_a_lease_sets_no_limit_and_gets_no_numbers() -> None:
    node = Node(lease=None)
    node.passes(1e6)
    assert node.standing.is_sure()
    assert node.reports(is_busy=True) == (0, False)


def test_reports_that_nobody_answers_are_forgotten() -> None:
    node = Node()
    for _ in range(1_000):
        node.passes(1.0)
        node.reports()
    assert len(node.standing._sent) <= LEASE.answered_s + 1


def test_a_node_relies_on_less_than_the_times_after_which_the_head_gives_it_up() -> None:
    for limits in (
        HealthLimits(),
        HealthLimits(period_s=0.3, misses=5, reconnect_s=0.5),
        HealthLimits(reconnect_s=30.0),
    ):
        lease = limits.lease
        assert lease.sure_s < min(limits.reconnect_s, limits.silence_s)
        assert lease.answered_s < limits.silence_s
    assert HealthLimits(reconnect_s=0.0).lease.sure_s > 0.0
