"""Waiting work that no node could ever run is recorded as an event. It is recorded one time, until
a node could run it.
"""

from __future__ import annotations

from tests.world.clock import ManualClock

from phalanx.head.events import unplaceable
from phalanx.head.events.event_log import EventLog
from phalanx.head.events.unplaceable import Unplaceable
from phalanx.head.state_store import StateStore
from phalanx.observe.events import EventQuery
from phalanx.protocol.cluster_messages import ViewRow
from phalanx.scheduler.placement.cluster_nodes import ClusterNodes

GPU = {"GPU": 1.0}


class World:
    def __init__(self):
        self.event_log = EventLog(StateStore(None), ManualClock(0.0))
        self.cluster = ClusterNodes()
        self.unplaceable = Unplaceable(self.event_log, self.cluster)

    def add(self, name, **total):
        row = ViewRow(name, name.encode(), "", 0, "ALIVE", total, dict(total), labels={})
        self.cluster.put(row)

    def noted(self, *waiting):
        """Return the events that are noted when these demands wait."""
        before = self.event_log.page(EventQuery()).newest
        self.unplaceable.judge(waiting)
        return [(e.name, e.why) for e in self.event_log.page(EventQuery(after=before)).events]


def test_it_is_noted_once_until_a_node_has_it():
    world = World()
    assert world.noted(GPU) == []  # there is no node yet
    world.add("n1", CPU=2.0)
    assert world.noted({"CPU": 1.0}, GPU) == [("1 GPU", "the largest node has 0 GPU")]
    assert world.noted(GPU, GPU) == []
    world.add("n2", CPU=1.0)
    assert world.noted(GPU) == []
    world.add("n3", CPU=1.0, GPU=1.0)
    assert world.noted(GPU) == []
    world.cluster.remove("n3")
    assert world.noted(GPU) == [("1 GPU", "the largest node has 0 GPU")]


def test_amounts_that_only_several_nodes_have():
    world = World()
    world.add("n1", CPU=8.0)
    world.add("n2", CPU=1.0, GPU=4.0)
    both = {"CPU": 4.0, "GPU": 2.0}
    assert world.noted(both) == [("4 CPU, 2 GPU", "no single node has that together")]


def test_only_so_many_are_remembered(monkeypatch):
    monkeypatch.setattr(unplaceable, "_KNOWN", 2)
    world = World()
    world.add("n1", CPU=1.0)
    sizes = [{"CPU": float(n)} for n in (2, 3, 4)]
    assert len(world.noted(*sizes)) == 3
    assert world.noted(sizes[2]) == []
    assert [name for name, _ in world.noted(sizes[0])] == ["2 CPU"]
