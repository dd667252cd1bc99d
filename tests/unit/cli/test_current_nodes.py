"""The nodes that listings show, where nodes of one name were started several times."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.adapters.slurm.commands import sinfo
from phalanx.adapters.slurm.commands.records import (
    configuration,
    node_record,
    queue_record,
)
from phalanx.adapters.slurm.preemption import preempt_mode
from phalanx.cli import process_output
from phalanx.cli.cluster_view import status_text
from phalanx.cli.ending import Ended
from phalanx.model.lifecycle import ALIVE, DEAD, DRAINING
from phalanx.model.rows.cluster import NodeInfo, StatusInfo, current_nodes
from phalanx.model.rows.work import QueueInfo

IN_2023 = 1_700_000_000.0


QUEUE = QueueInfo(
    name="default", state="Open", weight=1, priority=0, parent="root", reclaimable=True,
    members=0, capability={}, deserved={}, guarantee={}, allocated={}, requested={},
    default_time_s=None, max_time_s=None, pending=0, inqueue=0, running=0, unknown=0, completed=0,
)  # fmt: skip


def status(nodes: list[NodeInfo]) -> StatusInfo:
    return StatusInfo(
        address="", store="memory", nodes=nodes, actors={}, groups=[], jobs=[], gangs={},
        troubles=[], defects={},
    )  # fmt: skip


def node(node_id: str, hostname: str, state: str = ALIVE, **more: Any) -> NodeInfo:
    fields: dict[str, Any] = {
        "reason": "", "host": "127.0.0.1", "port": 1, "total": {"CPU": 4.0, "memory": 8.0 * 2**30},
        "available": {} if state == DEAD else {"CPU": 4.0, "memory": 8.0 * 2**30}, "labels": {},
        "running": 0, "waiting": 0, "devices": {}, **more,
    }  # fmt: skip
    return NodeInfo(node_id=node_id, hostname=hostname, state=state, **fields)


def dead(node_id: str, hostname: str, ended: float = IN_2023, **more: Any) -> NodeInfo:
    return node(node_id, hostname, DEAD, ended=ended, reason="it ended", **more)


SHOWN = [
    ([], []),
    ([dead("a", "vm"), node("b", "vm")], ["b"]),
    ([dead("a", "vm", 2.0), dead("b", "vm", 3.0), dead("c", "vm", 1.0)], ["b"]),
    ([dead("a", "vm", 0.0), dead("b", "vm", 0.0)], ["b"]),
    ([dead("a", "vm"), node("b", "other")], ["a", "b"]),
    ([node("a", "vm"), node("b", "vm")], ["a", "b"]),
    ([dead("a", "vm", host="10.0.0.1"), node("b", "vm", host="10.0.0.2")], ["a", "b"]),
    ([dead("a", ""), node("b", "")], ["a", "b"]),
    ([dead("a", "vm", began=1.0), node("b", "vm", began=2.0)], ["b"]),
    ([node("a", "vm", began=1.0), dead("b", "vm", began=2.0)], ["a", "b"]),
    ([dead("a", "x", name="x"), node("b", "x", name="x")], ["b"]),
]


@pytest.mark.parametrize(("rows", "shown"), SHOWN)
def test_a_dead_node_is_shown_once_and_only_if_its_name_does_not_live(rows, shown):
    assert [row.node_id for row in current_nodes(rows)] == shown


def test_a_dead_node_holds_nothing():
    lines = node_record(dead("a", "vm"), ["default"])
    assert "CPUAlloc=0 CPUEfctv=4 CPUTot=4 CPULoad=N/A" in lines
    assert "AllocTRES=" in lines


USED = [
    ([dead("a", "vm")], "0/0/4/4", "down"),
    ([node("a", "vm", DRAINING)], "0/0/4/4", "drained"),
    ([node("a", "vm", DRAINING, available={"CPU": 1.0})], "3/0/1/4", "draining"),
    ([node("a", "vm", available={"CPU": 1.0})], "3/1/0/4", "mixed"),
    ([node("a", "vm"), dead("b", "other")], "0/4/4/8", "idle"),
]


@pytest.mark.parametrize(("nodes", "used", "state"), USED)
def test_cpus_of_nodes_that_take_no_work_are_not_idle(nodes, used, state):
    row = sinfo._row(QUEUE, nodes)
    assert (row["used"], row["state"]) == (used, state)


def test_the_status_counts_what_listings_show():
    rows = [dead("a", "vm"), dead("b", "vm"), node("c", "vm"), dead("d", "other")]
    assert "nodes: 1 alive, 0 draining, 1 dead" in status_text(status(rows), "1")


def test_the_reason_of_a_dead_node_has_the_time_of_its_death():
    assert sinfo._row(QUEUE, [dead("a", "vm")])["reason_time"].startswith("2023-11-1")
    assert sinfo._row(QUEUE, [dead("a", "vm", 0.0)])["reason_time"] == ""


def test_the_log_of_a_node_is_that_of_its_newest_start(monkeypatch):
    def asked(rows: list[NodeInfo]) -> str:
        monkeypatch.setattr(process_output, "ask", lambda *_, **__: status(rows))
        return process_output.node_source(None, "vm").node

    assert asked([dead("a", "vm", 1.0), dead("b", "vm", 3.0), dead("c", "vm", 2.0)]) == "b"
    assert asked([dead("a", "vm", 1.0), node("b", "vm"), dead("c", "vm", 2.0)]) == "b"
    with pytest.raises(Ended):
        asked([node("a", "vm"), node("b", "vm")])


@pytest.mark.parametrize(
    ("actions", "mode"),
    [(["allocate", "preempt"], "REQUEUE"), (["reclaim"], "REQUEUE"), (["allocate"], "OFF")],
)
def test_the_preemption_mode_is_that_of_the_rules_in_force(actions, mode):
    assert preempt_mode(actions) == mode
    assert f"OverTimeLimit=NONE PreemptMode={mode}" in queue_record(QUEUE, [], mode)
    lines = [line.split(" = ") for line in configuration([QUEUE], "vm", "x", mode)[1:-2]]
    assert {name.strip(): value for name, value in lines}["PreemptMode"] == mode
