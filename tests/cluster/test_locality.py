"""Tasks go where their large arguments lie, and what passes between nodes is recorded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.cluster.conftest import PATIENCE_S

import phalanx
from phalanx.observe.cluster_events import EventRing, NodeJoined

EXAMPLE = Path(__file__).parents[2] / "examples" / "figure7.py"
LARGE, SMALL = 200_000, 1_000


@phalanx.remote(num_cpus=1)
def make(size):
    return np.zeros(size, dtype=np.int8)


@phalanx.remote(num_cpus=1)
def where(*arrays):
    return phalanx.get_runtime_context().get_node_id()


@phalanx.remote
class Occupant:
    def ready(self):
        return True


@pytest.fixture
def two(new_cluster):
    """(here, there, a function that has an array made on one of them)."""
    cluster = new_cluster()  # enough CPUs that one in use is no reason to go elsewhere
    here = cluster.add_node(num_cpus=8, resources={"here": 9})
    there = cluster.add_node(num_cpus=8, resources={"there": 9})
    cluster.connect()
    cluster.wait_for_nodes(PATIENCE_S)

    def made(size, name):
        ref = make.options(resources={name: 1}).remote(size)
        phalanx.wait([ref], timeout=PATIENCE_S)
        return ref

    return here.node_id, there.node_id, made


@pytest.mark.parametrize(
    ("arguments", "goes"),
    [
        ([(LARGE, "there")], "there"),
        ([(SMALL, "there")], "here"),
        ([(LARGE, "here")], "here"),
        ([(LARGE, "here"), (2 * LARGE, "there")], "there"),
        ([(2 * LARGE, "here"), (LARGE, "there")], "here"),
        ([], "here"),
    ],
)
def test_where_most_bytes_are(two, get, arguments, goes):
    here, there, made = two
    refs = [made(*one) for one in arguments]
    assert get(where.remote(*refs)) == {"here": here, "there": there}[goes]


def test_elsewhere_when_that_node_is_full_and_the_copy_counts_then(two, get):
    here, _there, made = two
    array = made(LARGE, "there")
    occupant = Occupant.options(num_cpus=8, resources={"there": 1}).remote()
    get(occupant.ready.remote())
    assert get(where.remote(array)) == here
    phalanx.kill(occupant)
    assert get(where.remote(array)) == here


def test_another_strategy_goes_first(two, get):
    from phalanx.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here, _, made = two
    array = made(LARGE, "there")
    bound = NodeAffinitySchedulingStrategy(here, soft=False)
    assert get(where.options(scheduling_strategy=bound).remote(array)) == here


def test_what_stays_on_a_node_leaves_no_event(two, get):
    _, _, made = two
    before = phalanx.cluster_events()
    assert {row["event"] for row in before} == {"NodeJoined"}
    array = made(LARGE, "here")
    for i in range(5):
        get(where.remote(array, i))
    events = phalanx.cluster_events()
    assert [row for row in events if row["event"] not in ("NodeJoined", "DemandQueued")] == []


def test_every_step_of_figure_7_is_recorded():
    found = subprocess.run(
        [sys.executable, str(EXAMPLE)],
        check=False,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert found.returncode == 0, found.stderr
    steps = [line.split()[4] for line in found.stdout.splitlines() if line[:3].strip().isdigit()]
    assert steps == [
        "ArgumentsLocated",
        "DemandQueued",
        "Forwarded",
        "NodeChosen",
        "LeaseLent",
        "ArgumentPresent",
        "PullStarted",
        "PullEnded",
        "Executed",
        "ResultStored",
        "ReaderWaits",
        "LocationKnown",
        "ReaderTold",
        "PullStarted",
        "PullEnded",
    ]


def test_a_ring_keeps_the_latest():
    ring = EventRing(keep=2)
    for epoch in (1, 2, 3):
        ring.record(NodeJoined(at=0.0, node="n", hostname="h", epoch=epoch))
    assert [(row["event"], row["epoch"]) for row in ring.rows()] == [
        ("NodeJoined", 2),
        ("NodeJoined", 3),
    ]
    assert len(ring.drain()) == 2
    assert len(ring) == 0
