"""`ray status` prints the layout that scripts expect."""

from __future__ import annotations

from datetime import datetime

import msgspec

from phalanx.adapters.ray.command.status import ray_status_text
from phalanx.model.lifecycle import ALIVE, DEAD
from phalanx.model.rows.cluster import NodeInfo, StatusInfo

NOW = datetime(2026, 1, 2, 3, 4, 5)


def node(name, cpus_free, state=ALIVE):
    total = {"CPU": 4.0, "memory": 3 * 2.0**29, f"node:{name}": 1.0}
    free = {**total, "CPU": cpus_free}
    return NodeInfo(name, state, "", "10.0.0.1", 1, "h", total, free, {}, 0, 0, {})


def status(*nodes, groups=(), troubles=()):
    return StatusInfo("h:1", "memory", list(nodes), {}, list(groups), [], {}, list(troubles), {})


def test_a_cluster_with_work_that_waits():
    group = {"state": "PENDING", "strategy": "PACK", "bundles": {0: {"CPU": 8.0}, 1: {"CPU": 8.0}}}
    made = {**group, "state": "CREATED"}
    rows = (node("aa", 1.0), node("bb", 4.0), node("cc", 0.0, DEAD))
    wanting: list[dict[str, float]] = [{"CPU": 2.0}, {"CPU": 2}, {"GPU": 1.0, "CPU": 1.0}]
    text = ray_status_text(status(*rows, groups=[group, made]), wanting, NOW)
    line = "-" * 63
    assert text.splitlines() == [
        "======== Autoscaler status: 2026-01-02 03:04:05 ========",
        "Node status",
        line,
        "Active:",
        " 1 node_aa",
        "Idle:",
        " 1 node_bb",
        "Pending:",
        " (no pending nodes)",
        "Recent failures:",
        " node_cc: NodeTerminated (ip: 10.0.0.1)",
        "",
        "Resources",
        line,
        "Total Usage:",
        " 3.0/8.0 CPU",
        " 0B/3.0GiB memory",
        "",
        "Total Constraints:",
        " (no request_resources() constraints)",
        "Total Demands:",
        " {'CPU': 2.0}: 2+ pending tasks/actors",
        " {'CPU': 1.0, 'GPU': 1.0}: 1+ pending tasks/actors",
        " {'CPU': 8.0} * 2 (PACK): 1+ pending placement groups",
    ]


def test_machines_that_boot_are_pending():
    booting = {"gpu": ["gpu-1", "gpu-2"], "cpu": ["cpu-1"]}
    text = ray_status_text(msgspec.structs.replace(status(), booting=booting), [], NOW)
    assert "Pending:\n gpu, 2 launching\n cpu, 1 launching\nRecent failures:" in text


def test_a_cluster_without():
    text = ray_status_text(status(troubles=["the disk is full"]), [], NOW)
    assert "Active:\n (no active nodes)\nIdle:\n (no idle nodes)\n" in text
    assert "Recent failures:\n (no failures)\n" in text
    assert text.endswith("Total Demands:\n (no resource demands)\nhealth: the disk is full")
