"""All listings at three widths of a terminal: each row is one line, and names are not cut."""

from __future__ import annotations

import io
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from tests.unit.cli.tables import TABLES
from tests.unit.dashboard.world import GIB, NOW, START, device, gang, job, node

from phalanx.cli import accounting_view, devices, events, queues, reservations, shares
from phalanx.cli.cluster_view import node_columns, status_text
from phalanx.cli.job_list import JOBS, array_columns
from phalanx.cli.layout import Column, columns_that_fit, cut, width_of
from phalanx.cli.listing import chosen_columns, listing
from phalanx.cli.node_names import NodeNames
from phalanx.cli.plan_view import plan_text
from phalanx.cli.table import terminal_width
from phalanx.cli.top_snapshot import TopSnapshot
from phalanx.cli.top_view import screen
from phalanx.model.attempts import Attempt
from phalanx.model.jobs import states as st
from phalanx.model.rows.cluster import StatusInfo
from phalanx.model.rows.events import EventInfo
from phalanx.model.rows.plan import Basis, Place, PlannedStart, RunningPlace, TimePlan
from phalanx.model.rows.reservations import ReservationInfo
from phalanx.model.rows.shares import ShareInfo
from phalanx.model.rows.work import ArrayTaskInfo, QueueInfo

WIDTHS = (80, 120, 200)
LONG = "llama-pretrain-with-a-long-name-that-is-never-cut-2026"
WHY = "2 of 8 tasks wait: 3 nodes lack GPU (each needs 8, most free 4)"
NODES = [
    node(1, hostname="gpu-1", labels={"zone": "a", "ray.io/accelerator-type": "H100"}),
    node(2, hostname="gpu-2", labels={}, state="DRAINING", reason="the fans are changed on Friday"),
    node(3, hostname="twin", labels={}),
    node(4, hostname="twin", labels={}, state="DEAD", host="10.0.0.4", reason="no word for 20 s"),
]
IN_USE = {NODES[0].node_id: {"CPU": 2.5, "memory": 3.5 * GIB, "GPU": 1.25}}
RUN_S = 3 * 86_400 + 4 * 3_600


def queue(name: str, **fields: object) -> QueueInfo:
    usual = dict.fromkeys(QueueInfo.__struct_fields__, 0)
    amounts = ("capability", "deserved", "guarantee", "allocated", "requested")
    known: dict[str, object] = {key: {} for key in amounts} | {
        "default_time_s": None,
        "max_time_s": None,
    }
    named = {"name": name, "state": "Open", "parent": "root"}
    return QueueInfo(**usual | known | named | fields)  # type: ignore[arg-type]


def attempt(**fields: object) -> Attempt:
    known = {
        "job": LONG, "namespace": "default", "member": "worker-0", "attempt": 1, "user": "alice",
        "queue": "lab", "command": "python train.py", "state": "COMPLETED", "exit_code": 0,
        "node": "gpu-1", "cpus": 8.0, "gpus": 8.0, "submitted": NOW - RUN_S - 60,
        "started": NOW - RUN_S, "ended": NOW,
    }  # fmt: skip
    return Attempt(**known | fields)  # type: ignore[arg-type]


def jobs() -> str:
    rows = [
        job(LONG, ran_s=6_780.0, started=NOW - 6_780, gpus=64.0, user="alice", age_s=9_000.0),
        job("short", ran_s=12.0, started=NOW - 12, gpus=0.5, user="bob"),
        job(
            "waits", st.PENDING, reason=WHY, gpus=64.0, position=3, expected_start=START,
            user="a-user-with-a-long-name",
        ),
        job("failed", st.FAILED, reason="worker-0: exit code 1: ValueError: no such file"),
    ]  # fmt: skip
    return listing(JOBS, rows)


def array() -> str:
    rows = [
        ArrayTaskInfo(
            name="sweep[0-899]", elements=900, state=st.COMPLETED, exit_code=0, starts=1, node="",
            reason="",
        ),
        ArrayTaskInfo(
            name="sweep[900]", elements=1, state=st.RUNNING, exit_code=None, starts=2,
            node=NODES[0].node_id, reason="it runs again, as its node was lost the first time",
        ),
    ]  # fmt: skip
    return listing(array_columns(NodeNames(NODES)), rows)


def status() -> str:
    return status_text(
        StatusInfo(
            address="10.0.0.1:6380", store="/var/lib/phalanx.db", nodes=NODES,
            actors={"ALIVE": 3}, groups=[], jobs=[], gangs={"running": 2, "waiting": 1},
            troubles=[], defects={}, lost_nodes=["node twin died: no word for 20 s"],
        ),
        "1.0",
    )  # fmt: skip


def plan() -> str:
    name, basis = NodeNames(NODES), Basis(by_limit=1)
    held = Place(node=NODES[0].node_id, tasks=1, devices={"nvidia.com/gpu": 8})
    starts = PlannedStart(
        podgroup="default/waits", queue="lab", after_tasks=8, at_s=NOW + 6_780, ends_s=NOW + 10_380,
        places=(held,), basis=basis, is_promised=True, fills=False, earliest_s=None,
    )  # fmt: skip
    running = RunningPlace(podgroup=f"default/{LONG}", place=held, ends_s=NOW + 6_780)
    found = TimePlan(now=NOW, starts=(starts,), unknown=("default/late",), running=(running,))
    return plan_text(found, name)


def rows_of_events() -> list[EventInfo]:
    places = ((NODES[0].node_id, "gpu-1", 8),)
    return [
        EventInfo(number=1, at=NOW, kind="submitted", job="default/waits", queue="lab", by="alice"),
        EventInfo(
            number=2, at=NOW + 60, kind="started", job=f"default/{LONG}", queue="lab",
            user="alice", members=8, places=places,
        ),
        EventInfo(number=3, at=NOW + 90, kind="node-died", node=NODES[3].node_id, host="twin",
                  why="no word for 20 s"),
    ]  # fmt: skip


def reserved() -> ReservationInfo:
    return ReservationInfo(
        name="maintenance-of-the-fans", state="planned", begin=NOW, end=NOW + 7_200, schedule="",
        time_zone="UTC", is_maintenance=True, users=[], queues=[],
        nodes={NODES[1].node_id: {}, NODES[0].node_id: {"GPU": 2.0}}, hosts=["gpu-2", "gpu-1"],
        running=[], waiting=["default/waits"], lacks="",
    )  # fmt: skip


def share(user: str, **fields: object) -> ShareInfo:
    known = {
        "queue": "lab", "user": user, "shares": 1.0, "is_set": False, "part": 0.5, "use": 7.2e6,
        "use_part": 0.25, "level_fairshare": 2.0, "rank": 1, "rate": 8.0,
    }  # fmt: skip
    return ShareInfo(**known | fields)  # type: ignore[arg-type]


def of_devices() -> str:
    rows = [
        device(NODES[0], 0, reason="", model="NVIDIA H100 80GB HBM3", holders=[f"{LONG} worker-0"],
               left=0.0),
        device(NODES[1], 1, reason="79 uncorrectable errors", state="bad", action="reset",
               model="NVIDIA H100 80GB HBM3"),
    ]  # fmt: skip
    return listing(devices.device_columns(NodeNames(NODES)), rows)


def test_sharers_of_a_device_are_listed_with_its_mode_and_their_memory() -> None:
    sharers = [("a worker-0", int(20 * GIB), int(2 * GIB), int(20 * GIB))]
    row = device(NODES[0], 0, mode="mps", holders=["a worker-0", "b"], sharers=sharers)
    text = listing(devices.device_columns(NodeNames(NODES)), [row], output="wide")
    assert "b, shared by mps: a worker-0 (2.0 GiB used, 20.0 GiB held)" in text


@pytest.mark.parametrize(
    ("numbers", "nodes", "shown"),
    [
        ([0, 1, 2, 5], 1, "gpu-1:0-2,5"),
        ([3], 2, "gpu-1:3 gpu-2:3"),
        ([0, 1], 5, "n0:0-1 n1:0-1 n2:0-1 and 2 more nodes"),
    ],
)
def test_top_names_the_devices_of_a_job_also_where_nothing_measures_them(
    numbers: list[int], nodes: int, shown: str
) -> None:
    several = [node(n + 1, hostname=f"n{n}") for n in range(nodes)]
    there = several if nodes > 2 else NODES[:nodes]
    unread = {"busy": None, "memory_used": None, "temperature_c": None, "power_w": None}
    one = job("runs", ran_s=60.0, started=NOW - 60, user="alice")
    snapshot = TopSnapshot(
        at=NOW, status=STATUS, nodes=there, queues=[], waiting=[], running=[one],
        devices={row.node_id: [device(row, n, **unread) for n in range(8)] for row in there},
        gangs=[gang(1, there, [numbers] * len(there), job="default/runs")],
    )  # fmt: skip
    lines = [line.plain.rstrip() for line in screen(snapshot, 120, 0)]
    at = next(n for n, line in enumerate(lines) if "RUNNING" in line)
    assert lines[at + 2].endswith(f" {len(numbers) * len(there)}  {shown}")


def test_a_device_that_is_not_read_is_held_by_the_gang_that_holds_it() -> None:
    rows = [device(NODES[0], number, holders=[], left=0.5) for number in range(3)]
    rows[1] = msgspec.structs.replace(rows[1], holders=["a worker-0"])
    holding = [
        gang(1, [NODES[0]], [[0, 1]], job="default/mine"),
        gang(2, [NODES[0]], [[0]], job="", name="g2"),
    ]
    found = devices.with_gangs(rows, holding)
    assert [one.holders for one in found] == [["mine", "g2"], ["a worker-0"], []]


def of_queues() -> str:
    rows = [
        queue("root", parent="", state="Open", running=2, allocated={"CPU": 96.0, "GPU": 72.0}),
        queue(
            "lab", weight=3, pending=1, running=2, members=9, allocated={"CPU": 96.0, "GPU": 72.0},
            requested={"CPU": 64.0, "GPU": 64.0}, deserved={"GPU": 128.0}, default_time_s=6_780.0,
            capability={"GPU": 256.0, "memory": 512 * GIB}, max_time_s=RUN_S,
        ),
    ]  # fmt: skip
    return listing(queues.COLUMNS, rows)


STATUS = StatusInfo(
    address="10.0.0.1:6380", store="", nodes=[], actors={}, groups=[], jobs=[], gangs={},
    troubles=["no new work is taken: its disk is full"], defects={},
)  # fmt: skip


def top() -> str:
    held = [device(NODES[0], number, reason="", left=0.0, busy=0.9) for number in range(8)]
    bad = device(NODES[1], 0, reason="79 uncorrectable errors", state="bad", action="reset")
    shown = TopSnapshot(
        at=NOW,
        status=STATUS,
        nodes=NODES[:2],
        devices={NODES[0].node_id: held, NODES[1].node_id: [bad]},
        queues=[queue("lab", running=2, pending=1, allocated={"GPU": 72.0})],
        waiting=[job("waits", st.PENDING, reason=WHY, gpus=64.0, position=3)],
        running=[job(LONG, ran_s=6_780.0, started=NOW - 6_780, gpus=64.0, user="alice")],
        gangs=[gang(1, NODES[:1], [list(range(8))], job=f"default/{LONG}")],
    )  # fmt: skip
    return "\n".join(line.plain.rstrip() for line in screen(shown, terminal_width() or 0, 0))


LISTINGS: dict[str, Callable[[], str]] = {
    "jobs": jobs,
    "array": array,
    "nodes": lambda: listing(
        node_columns(NODES, {NODES[2].node_id: {"GPU": 2.0}}, IN_USE, False), NODES
    ),
    "status": status,
    "queues": of_queues,
    "devices": of_devices,
    "shares": lambda: listing(shares.COLUMNS, [share("alice"), share("bob", shares=3.0)]),
    "history": lambda: listing(
        accounting_view.history_columns(accounting_view.columns_of(accounting_view.USUAL)),
        [attempt(), attempt(job="short", ended=NOW - RUN_S + 12, state="FAILED", exit_code=1)],
    ),
    "events": lambda: listing(events.COLUMNS, rows_of_events()),
    "reservations": lambda: listing(reservations.COLUMNS, [reserved()]),
    "plan": plan,
    "top": top,
    **TABLES,
}
SNAPSHOTS = Path(__file__).parent / "listings"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()

    def become(width: int) -> None:
        monkeypatch.setenv("COLUMNS", str(width))
        monkeypatch.setenv("TERM", "dumb")
        monkeypatch.setattr(sys, "stdout", Terminal())

    return become


@pytest.mark.parametrize("name", LISTINGS)
def test_listings_look_as_they_did(
    name: str, terminal: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With PHALANX_SNAPSHOTS=write the test writes the expected texts anew, and a person must check
    them.
    """
    parts = []
    for width in WIDTHS:
        terminal(width)
        parts.append(f"{width} columns\n{LISTINGS[name]()}\n")
    monkeypatch.undo()
    time.tzset()
    text, file = "\n".join(parts), SNAPSHOTS / f"{name}.txt"
    if os.environ.get("PHALANX_SNAPSHOTS") == "write":
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    assert text == file.read_text()


LINES = {
    "config": 3, "cycles": 2, "priority": 2, "report": 3, "steps": 2, "tasks": 2,
    "jobs": 4, "array": 2, "nodes": 4, "queues": 2, "devices": 2, "shares": 2, "history": 2,
}  # fmt: skip


@pytest.mark.parametrize("width", [*WIDTHS, 60, 300])
@pytest.mark.parametrize("name", LINES)
def test_a_row_is_a_line_that_fits_and_names_are_whole(
    name: str, width: int, terminal: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal(width)
    lines = LISTINGS[name]().splitlines()
    monkeypatch.undo()
    assert len(lines) == LINES[name] + 1
    if width >= 80:
        assert max(map(width_of, lines)) <= width
    if name in ("jobs", "history"):
        assert any(line.startswith(LONG) for line in lines)


def test_narrow_terminals_lose_columns_in_one_order() -> None:
    columns = [Column(str(rank), str, rank=rank) for rank in (0, 3, 1, 2)]
    shown = [
        [columns[one].rank for one in columns_that_fit(columns, [10] * 4, width)[0]]
        for width in (46, 45, 34, 33, 22, 21, 1)
    ]
    assert shown == [[0, 3, 1, 2], [0, 1, 2], [0, 1, 2], [0, 1], [0, 1], [0], [0]]


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        ("short", 5, "short"),
        ("longer", 5, "long…"),
        ("two words", 5, "two…"),
        ("日本語", 5, "日本…"),
    ],
)
def test_texts_are_cut_at_the_width_of_their_letters(text: str, width: int, shown: str) -> None:
    assert cut(text, width) == shown
    assert width_of(shown) <= width


def test_names_tell_nodes_apart() -> None:
    again = msgspec.structs.replace(NODES[3], state="ALIVE")
    name = NodeNames([*NODES[:3], again])
    ids = [row.node_id[:12] for row in NODES]
    assert [name(row.node_id) for row in NODES] == ["gpu-1", "gpu-2", *ids[2:]]
    assert NodeNames(NODES, with_ids=True)(NODES[0].node_id) == NODES[0].node_id


def test_a_column_has_its_earlier_name_for_a_version() -> None:
    columns = array_columns(lambda node: node)
    by_earlier, by_name = (
        [one.name for one in chosen_columns(columns, word)] for word in ("elements", "TASKS")
    )
    assert by_earlier == by_name == ["tasks"]
