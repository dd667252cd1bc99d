"""A node that drains begins no new work; work that it has begun, and work that was promised a place
there, continues.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any

import pytest
from tests.polling import eventually

import phalanx
from phalanx import exceptions as errors
from phalanx.api.session import running_engine
from phalanx.protocol.requests.cluster import ChangeTotals, DrainNode, GetStatus
from phalanx.util.placement_group import placement_group, remove_placement_group
from phalanx.util.scheduling_strategies import (
    NodeAffinitySchedulingStrategy,
    PlacementGroupSchedulingStrategy,
)

PATIENCE_S = 120


def drain(node):
    running_engine().ask(DrainNode(node.node_id, "it is old"))


def state_of(node):
    return next(row["state"] for row in phalanx.nodes() if row["NodeID"] == node.node_id)


@phalanx.remote(num_cpus=1)
def where():
    return phalanx.get_runtime_context().get_node_id()


@phalanx.remote(num_cpus=0)
class Notes:
    def __init__(self):
        self.notes = []

    def add(self, note):
        self.notes.append(note)
        return self.notes

    def all(self):
        return self.notes


@phalanx.remote(num_cpus=1)
def hold(pipe):
    """Keeps its CPU until the pipe's other end closes."""
    with open(pipe) as reading:
        reading.read()
    return phalanx.get_runtime_context().get_node_id()


@pytest.fixture
def begin(tmp_path):
    """Yield a function that starts this many tasks `hold` and waits until they run. It returns
    their references, and a function that lets them end.
    """
    opened: list[Any] = []

    def begin(count):
        pipes = [str(tmp_path / str(i)) for i in range(count)]
        for pipe in pipes:
            os.mkfifo(pipe)
        refs = [hold.remote(pipe) for pipe in pipes]
        opened.extend(open_when_read(pipe) for pipe in pipes)
        return refs, end

    def end():
        while opened:
            os.close(opened.pop())

    yield begin
    end()


def open_when_read(pipe):
    """Return the writing end of the pipe. It can be opened only after the task has opened the
    reading end.
    """

    def opened():
        with contextlib.suppress(OSError):
            return [os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)]
        return []

    return eventually(opened, "that the task begins")[0]


def test_tasks_that_run_finish_there_and_those_that_wait_go_elsewhere(new_cluster, get, begin):
    cluster = new_cluster(1, 1)
    head, old = cluster.list_all_nodes()
    held, end = begin(2)
    waiting = [where.remote() for _ in range(20)]
    drain(old)
    assert state_of(old) == "DRAINING"
    phalanx.cluster_events()  # the node's part of it comes after it heard that it drains
    end()
    assert sorted(get(held)) == sorted([head.node_id, old.node_id])
    assert set(get(waiting)) == {head.node_id}
    assert set(get([where.remote() for _ in range(20)])) == {head.node_id}
    row = next(r for r in running_engine().ask(GetStatus()).nodes if r.state == "DRAINING")
    assert row["reason"] == "it is old"


def test_the_tasks_of_a_driver_on_a_draining_node_go_elsewhere(new_cluster, get):
    cluster = new_cluster(1)
    drain(cluster.head_node)
    late = where.remote()
    ready, _ = phalanx.wait([late], timeout=0)
    assert not ready
    heir = cluster.add_node(num_cpus=1)
    assert get(late) == heir.node_id
    assert get(where.options(scheduling_strategy="SPREAD").remote()) == heir.node_id


def test_actors_stay_and_new_ones_go_elsewhere(new_cluster, get):
    cluster = new_cluster(1)
    old = cluster.add_node(num_cpus=1, resources={"x": 2})
    stays = Notes.options(resources={"x": 1}, max_restarts=1, max_task_retries=-1).remote()
    get(stays.add.remote("before"))
    drain(old)
    later = Notes.options(resources={"x": 1}).remote()
    get(stays.add.remote("after"))
    assert get(stays.all.remote()) == ["before", "after"]
    ready, _ = phalanx.wait([later.all.remote()], timeout=0)
    assert not ready
    cluster.add_node(num_cpus=1, resources={"x": 2})
    assert get(later.all.remote()) == []
    cluster.remove_node(old)
    assert get(stays.all.remote()) == []  # made again on another node


def test_what_is_bound_to_a_draining_node_is_refused(new_cluster, get):
    cluster = new_cluster(1, 1)
    old = cluster.list_all_nodes()[1]
    drain(old)
    there = NodeAffinitySchedulingStrategy(old.node_id, soft=False)
    with pytest.raises(errors.TaskUnschedulableError, match="drains"):
        get(where.options(scheduling_strategy=there).remote())
    with pytest.raises(errors.ActorUnschedulableError, match="drains"):
        get(Notes.options(scheduling_strategy=there).remote().all.remote())
    rather = NodeAffinitySchedulingStrategy(old.node_id, soft=True)
    assert get(where.options(scheduling_strategy=rather).remote()) == cluster.head_node.node_id


def test_bundles_that_were_promised_stay_usable_and_no_more_are_promised(new_cluster, get):
    cluster = new_cluster(1)
    old = cluster.add_node(num_cpus=2, resources={"x": 2})
    promised = placement_group([{"CPU": 1, "x": 1}])
    get(promised.ready())
    drain(old)
    inside = PlacementGroupSchedulingStrategy(promised)
    assert get(where.options(scheduling_strategy=inside).remote()) == old.node_id
    wanted = placement_group([{"CPU": 1, "x": 1}])
    assert not wanted.wait(0.2)
    heir = cluster.add_node(num_cpus=1, resources={"x": 1})
    assert wanted.wait(PATIENCE_S)
    inside = PlacementGroupSchedulingStrategy(wanted)
    assert get(where.options(scheduling_strategy=inside).remote()) == heir.node_id
    remove_placement_group(promised)


def test_totals_below_what_is_in_use_end_nothing_and_let_nothing_start(new_cluster, get, begin):
    cluster = new_cluster(2)
    held, end = begin(2)
    node_id = cluster.head_node.node_id
    engine = running_engine()
    engine.ask(ChangeTotals(node_id, {"CPU": 1}))
    waiting = where.remote()
    bigger = where.options(num_cpus=3).remote()
    end()
    assert get(held) == [node_id] * 2
    assert get(waiting) == node_id
    ready, _ = phalanx.wait([bigger], timeout=0)
    assert not ready
    engine.ask(ChangeTotals(node_id, {"CPU": 3}))
    assert get(bigger) == node_id
    with pytest.raises(ValueError, match="at least 0"):
        engine.ask(ChangeTotals(node_id, {"CPU": -1}))
    with pytest.raises(ValueError, match="does not exist"):
        engine.ask(ChangeTotals("ab", {"CPU": 1}))


def test_what_is_free_on_a_draining_node_is_not_available(new_cluster):
    cluster = new_cluster(1)
    old = cluster.add_node(num_cpus=2, resources={"x": 2})
    assert phalanx.available_resources()["CPU"] == 3
    drain(old)
    available = phalanx.available_resources()
    assert (available["CPU"], available.get("x")) == (1, None)
    total = phalanx.cluster_resources()
    assert (total["CPU"], total["x"]) == (3, 2)
