"""`phalanx top`: what it shows at every width, and at a real terminal."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.system.cli.terminals import Terminal
from tests.unit.dashboard.world import EVIL, NOW, gang, job, node, queue

from phalanx.cli.top_snapshot import TopSnapshot
from phalanx.cli.top_view import ASCII, SECTIONS, screen
from phalanx.model.jobs import states
from phalanx.model.rows.cluster import DefectInfo, NodeInfo, StatusInfo
from phalanx.model.rows.devices import DeviceInfo


def device(row: NodeInfo, number: int, **fields) -> DeviceInfo:
    known: dict[str, Any] = {
        "state": "ok",
        "action": "",
        "reason": "",
        "is_closed": False,
        "left": 1.0,
        "holders": [],
        "busy": 0.5,
        "memory_used": 1,
        "memory_total": 4,
        "power_w": 300.0,
    }
    return DeviceInfo(
        node_id=row.node_id, number=number, temperature_c=50.0 + number, **known | fields
    )


def picture(nodes: int = 2, jobs: int = 3) -> TopSnapshot:
    rows = [node(n, left=[0, 10_000]) for n in range(nodes)]
    status = StatusInfo(
        address="10.0.0.1:6380",
        store="memory",
        nodes=[],
        actors={},
        groups=[],
        jobs=[],
        gangs={},
        troubles=["no new work is taken: its disk is full"],
        defects={"job": DefectInfo(count=2, last="x", at=NOW)},
    )
    return TopSnapshot(
        at=NOW,
        status=status,
        nodes=rows,
        devices={row.node_id: [device(row, 0, left=0.0), device(row, 1)] for row in rows},
        queues=[queue("lab", running=2, pending=1, allocated={"GPU": 1.0})],
        waiting=[
            job(f"w{n}", states.PENDING, position=n + 1, reason=f"no room {EVIL}")
            for n in range(jobs)
        ],
        running=[job("g1", ran_s=90.0), job("g2", user=EVIL)],
        gangs=[gang(1, rows[:1], [[0]])],
    )


def text(shown: TopSnapshot, width: int = 200, height: int = 0, **more) -> list[str]:
    return [line.plain for line in screen(shown, width, height, signs=ASCII, **more)]


def line_of(lines: list[str], word: str) -> str:
    return next(line for line in lines if line.startswith(word))


def test_it_says_what_there_is() -> None:
    lines = text(picture())
    assert lines[0].startswith("phalanx top  10.0.0.1:6380")
    assert lines[1] == "nodes: 2 alive   allocated: GPU 2/4, CPU 16/32, memory 6.0 GiB/8.0 GiB"
    assert lines[2:4] == [
        "trouble: no new work is taken: its disk is full",
        "trouble: 2 defects about a job",
    ]
    assert "#.  busy 50% mem 25% 51C 600W" in line_of(lines, "n0000")
    assert line_of(lines, "lab").split()[:5] == ["lab", "open", "1", "2", "1"]
    assert line_of(lines, "g1").split() == [
        *("g1", "lab", "-", "1", "1m30s", "1", "n0000:0"),
        *("busy", "50%", "mem", "25%", "50C", "300W"),
    ]
    assert "no room" in line_of(lines, "w2")
    assert not any(sign in "".join(lines) for sign in ("\x1b", "\n"))


@pytest.mark.parametrize(
    ("fields", "sign"),
    [
        ({}, "."),
        ({"left": 0.5}, "o"),
        ({"left": 0.0}, "#"),
        ({"state": "suspect", "left": 0.0}, "?"),
        ({"state": "bad", "is_closed": True}, "x"),
        ({"is_closed": True}, "-"),
    ],
)
def test_each_state_of_a_device_has_a_sign_of_its_own(fields, sign) -> None:
    shown = picture(nodes=1)
    shown.devices[shown.nodes[0].node_id][:] = [device(shown.nodes[0], 0, **fields)]
    assert f" {sign}  busy" in line_of(text(shown), "n0000")


def test_who_holds_a_bad_device_is_marked() -> None:
    shown = picture(nodes=1)
    bad = device(shown.nodes[0], 0, state="bad", is_closed=True, left=0.0)
    shown.devices[shown.nodes[0].node_id][0] = bad
    assert line_of(text(shown), "g1").endswith("1 of its devices bad")


@given(
    st.integers(1, 250),
    st.integers(4, 80),
    st.integers(0, 40),
    st.integers(0, 40),
    st.dictionaries(st.sampled_from(SECTIONS), st.integers(0, 60)),
)
def test_it_fits_any_terminal(width, height, nodes, jobs, skipped) -> None:
    shown = picture(nodes + 1, jobs)
    lines = screen(shown, width, height, chosen="nodes", skipped=skipped, note="q quit")
    assert len(lines) <= height
    assert all(line.cell_len <= width for line in lines)
    assert lines[-1].plain.startswith("q quit"[:width][: max(width - 1, 0)])


def test_rows_that_find_no_room_are_counted_and_scrolled_to() -> None:
    shown = picture(nodes=40)
    lines = text(shown, height=30)
    assert any("NODES" in line and "(1-" in line and "of 40)" in line for line in lines)
    lines = text(shown, height=30, skipped={"nodes": 1000}, chosen="nodes")
    assert any(line.startswith("n0039") for line in lines)
    assert any(line.startswith(">NODES") for line in lines)
    assert any(line.startswith("w0") for line in lines)


def test_once_and_for_machines(running) -> None:
    shown = running.done("top", "--once")
    assert "NODES" in shown
    assert "WAITING (none)" in shown
    assert "NODES" in running.done("top"), "nobody types into a pipe"
    data = json.loads(running.done("top", "--json"))
    assert data["format"] == "phalanx-top/1"
    assert len(data["nodes"]) == 1


def test_at_a_terminal(running) -> None:
    terminal = Terminal(running, "top", "--every", "0.5", rows=24, columns=80)
    try:
        terminal.wait_for("NODES")
        terminal.type("\t")
        terminal.wait_for(">QUEUES")
        terminal.type("p")
        terminal.wait_for("paused")
        terminal.resize(12, 40)
        terminal.type("p\x1b[Bjk")
        terminal.wait_for(">QUEUES")
        terminal.type("q")
        assert terminal.code() == 0
        assert terminal.is_restored()
    finally:
        terminal.close()


def test_the_time_of_running_jobs_goes_on_between_their_changes() -> None:
    runs = job("runs", ran_s=600.0, age_s=660.0, submitted=NOW - 660)
    shown = msgspec.structs.replace(picture(), at=NOW + 60, running=[runs])
    [line] = [one.plain for one in screen(shown, 120, 0) if one.plain.startswith("runs ")]
    assert " 11m " in line
