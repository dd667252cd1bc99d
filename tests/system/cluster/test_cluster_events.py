"""Messages between nodes are recorded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
from tests.system.cluster.conftest import PATIENCE_S

import phalanx
from phalanx.observe.cluster_events import EventRing, NodeJoined

EXAMPLE = Path(__file__).parents[3] / "examples" / "figure7.py"


@phalanx.remote
def make():
    return np.zeros(200_000, dtype=np.int8)


@phalanx.remote
def size(array, number):
    return array.size


def test_what_stays_on_a_node_leaves_no_event(new_cluster, get):
    new_cluster(8, 8)
    before = phalanx.cluster_events()
    assert {row["event"] for row in before} == {"NodeJoined"}
    array = make.remote()
    for number in range(5):
        get(size.remote(array, number))
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
        "ReadersNotified",
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
