"""Helper processes of nodes that were killed: each death is an event, and `status` shows it for an
hour.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from phalanx.head.events.nodes import LATELY_S, NodeRecorder
from phalanx.head.nodes.record import NodeRecord
from phalanx.protocol.report_messages import NodeReport

NODE = NodeRecord(node_id="n", prefix=b"n" * 6, host="h", port=1, hostname="n1")


class Log:
    """Records the kinds and reasons of events."""

    def __init__(self):
        self.noted = []
        self.now = 1000.0

    def wall(self):
        return self.now

    def note(self, kind, *, why, **fields):
        self.noted.append((kind, why))

    def page(self, query):
        return SimpleNamespace(events=[])


def report(count, last="", available=True):
    free = {"CPU": 1.0} if available else {}
    return NodeReport(free, parts_killed=count, last_killed=last)


def recorder():
    log: Any = Log()
    return log, NodeRecorder(log)


def test_each_killed_part_is_noted_once_and_shown_for_an_hour():
    log, nodes = recorder()
    for before, after in ((0, 1), (1, 1), (1, 3)):
        nodes.judged(NODE, report(before), report(after, f"its part {after} was killed"))
    killed = [("part-killed", f"its part {at} was killed") for at in (1, 3)]
    assert log.noted == killed
    assert nodes.lost_lately() == [f"node n1: {why}" for _, why in killed]
    log.now += LATELY_S + 1
    assert nodes.lost_lately() == []


def test_a_head_that_has_just_begun_takes_what_it_hears_first_for_no_news():
    log, nodes = recorder()
    nodes.judged(NODE, report(0, available=False), report(2, "its part was killed"))
    assert log.noted == []
