"""A made-up cluster as users have them: machines with eight GPUs, teams, and jobs that wait for
different reasons.
"""

from __future__ import annotations

import random
from typing import Any

import msgspec
from tests.unit.dashboard.world import GIB, NOW, Head, device, gang, job, node, queue, snapshot

from phalanx.model.jobs import states as st
from phalanx.model.node_use import NodeUse, NumberOfNode, ProcessOfNode
from phalanx.model.rows.devices import DeviceInfo
from phalanx.model.rows.explanation import ExpectedStart
from phalanx.model.rows.plan import Basis, Place, PlannedStart, RunningPlace, TimePlan
from phalanx.model.rows.work import GangInfo, JobInfo
from phalanx.observe.series import Series
from phalanx.protocol.requests.gangs import ShowPlan
from phalanx.protocol.requests.health import ListDevices
from phalanx.protocol.requests.node_use import GetNodeUse, ListNodesInUse
from phalanx.protocol.requests.series import GetSeries, NumberOverTime, SeriesNews
from phalanx.protocol.requests.state import QueryState

from . import drawn_tasks

MACHINES, GPUS = 24, 8
TEAMS = ("vision", "speech", "llm", "course")
KINDS = ("pretrain", "finetune", "eval", "sweep", "notebook", "export", "ablation", "distil")
REASONS = (
    "queue vision may hold 48 GPU and holds 46; this asks for 8 more",
    "for 2 of its 3 tasks, no node has the labels asked for: gpu=h200 (0 nodes have it)",
    "3 of 4 tasks would find room, so none starts: 1 more needs 8 GPU",
    "it waits until llm-pretrain-2 has completed (afterok)",
    "2 of 3 licenses of matlab are held by job speech-eval-1, and it asks for 2",
    "24 nodes lack GPU (needs 8, most free 4)",
)


class DrawnHead(Head):
    """Answers requests in place of the head of the made-up cluster."""

    def __init__(self, machines: int = MACHINES, seed: int = 7) -> None:
        super().__init__()
        self._rng = random.Random(seed)
        self._nodes = machines
        self.devices: list[DeviceInfo] = []
        self.running: list[tuple[GangInfo, float | None]] = []
        self._draw()
        nodes = [row.node_id for row in self.snapshot.status.nodes]
        self.tasks = drawn_tasks.drawn_tasks(nodes[:6])

    def _draw(self) -> None:
        rng = self._rng
        left = [[10_000] * GPUS for _ in range(self._nodes)]
        free = [(n, g) for n in range(self._nodes) for g in range(GPUS)]
        rows = [self._machine(number) for number in range(self._nodes)]
        jobs: list[JobInfo] = []
        gangs: list[GangInfo] = []
        number = 0
        while len(free) > self._nodes:
            size = min(rng.choice((1, 2, 4, 8, 8, 16, 32)), len(free))
            mine, free = free[:size], free[size:]
            if rng.random() < 0.12:
                continue
            for n, g in mine:
                left[n][g] = 0
            team = rng.choice(TEAMS)
            name = f"{team}-{rng.choice(KINDS)}-{number}"
            number += 1
            limit = rng.choice((None, 7_200.0, 21_600.0, 86_400.0, 259_200.0))
            ran = rng.uniform(60, 20_000)
            ends = None if limit is None else NOW + max(limit - ran, 300.0)
            row = job(
                name,
                queue=team,
                user=rng.choice(("ana", "bo", "chi")),
                replicas=len(mine),
                min=len(mine),
                running=len(mine),
                ran_s=ran,
                started=NOW - ran,
                submitted=NOW - ran - 90,
                age_s=ran + 90,
                time_limit_s=limit,
                ends=ends,
            )
            jobs.append(row)
            on = [rows[n] for n, _ in mine]
            one = gang(number, on, [[g] for _, g in mine], queue=team, job=f"default/{name}")
            gangs.append(one)
            self.running.append((one, ends))
        jobs += self._waiting() + self._ended()
        nodes = []
        for n, row in enumerate(rows):
            closed = [3] if n == 5 else []
            unwell = [(3, "bad", "reset", "Xid 79: it has fallen off the bus")] if n == 5 else []
            if n == 9:
                closed, unwell = [0], []
            held = sum(x == 0 for x in left[n])
            for number in closed:
                left[n][number] = 0
            nodes.append(
                msgspec.structs.replace(
                    row,
                    devices={"GPU": left[n]},
                    closed=closed,
                    unwell=unwell,
                    available={
                        "CPU": 96.0 - 8 * held,
                        "memory": (1024 - 96 * held) * GIB,
                        "GPU": sum(left[n]) / 10_000,
                    },
                    reason=unwell[0][3] if unwell else row.reason,
                )
            )
            of_node = [self._device(row, number, left[n][number]) for number in range(GPUS)]
            for number, state, action, why in unwell:
                of_node[number] = msgspec.structs.replace(
                    of_node[number], state=state, action=action, reason=why, is_closed=True
                )
            self.devices += of_node
        queues = [queue("root")]
        for team in TEAMS:
            held = sum(len(g.nodes) for g in gangs if g.queue == team)
            waits = sum(one.pending for one in jobs if one.queue == team)
            of_team = [one for one in jobs if one.queue == team]
            queues.append(
                queue(
                    team,
                    deserved={"GPU": 48.0},
                    capability={"GPU": 64.0},
                    allocated={"GPU": float(held)},
                    requested={"GPU": float(waits)},
                    running=sum(one.state == st.RUNNING for one in of_team),
                    pending=sum(one.state == st.PENDING for one in of_team),
                )
            )
        seen = snapshot()
        status = msgspec.structs.replace(
            seen.status, nodes=nodes, troubles=[], defects={}, stranded={nodes[0].node_id: {}}
        )
        self.snapshot = snapshot(status=status, jobs=jobs, gangs=gangs, queues=queues)

    def _machine(self, number: int) -> Any:
        state, reason = ("DRAINING", "a loose cable") if number == 11 else ("ALIVE", "")
        return node(
            number,
            [0] * GPUS,
            hostname=f"gpu{number:03}",
            state=state,
            reason=reason,
            total={"CPU": 96.0, "memory": 1024 * GIB, "GPU": float(GPUS)},
            labels={"rack": f"r{number // 8}", "gpu": "h100"},
        )

    def _device(self, row: Any, number: int, left: int) -> DeviceInfo:
        rng = self._rng
        held = left == 0
        busy = rng.choice((0.0, 0.4, 0.93, 0.97)) if held else 0.0
        return device(
            row,
            number,
            reason="",
            left=left / 10_000,
            busy=busy,
            model="H100",
            memory_used=int(rng.uniform(0.1, 0.95) * 80 * GIB) if held else 0,
            memory_total=int(80 * GIB),
            temperature_c=rng.uniform(55, 84) if held else 31.0,
        )

    def _waiting(self) -> list[JobInfo]:
        found = []
        for at, reason in enumerate(REASONS):
            team = TEAMS[at % len(TEAMS)]
            start = None
            if at in (2, 5):
                start = ExpectedStart(
                    at_s=NOW + 6_780.0 * (at + 1),
                    in_s=6_780.0 * (at + 1),
                    after_tasks=at,
                    basis=Basis(by_limit=2),
                    is_promised=at == 2,
                )
            found.append(
                job(
                    f"{team}-big-{at}",
                    st.PENDING,
                    queue=team,
                    user="ana",
                    replicas=8,
                    min=8,
                    pending=8,
                    reason=reason,
                    position=at // len(TEAMS) + 1,
                    submitted=NOW - 3_600 * (at + 0.3),
                    age_s=3_600 * (at + 0.3),
                    expected_start=start,
                )
            )
        return found

    def _ended(self) -> list[JobInfo]:
        return [
            job(
                f"course-{kind}-9{at}",
                (st.FAILED, st.COMPLETED, st.TIMED_OUT)[at % 3],
                queue="course",
                user="bo",
                submitted=NOW - 9_000,
                started=NOW - 8_000,
                finished=NOW - 400 * (at + 1),
                ran_s=7_000.0,
                reason=("worker-1: exit code 137, above its memory limit", "", "its time is up")[
                    at % 3
                ],
            )
            for at, kind in enumerate(KINDS)
        ]

    def ask(self, request: Any) -> Any:
        match request:
            case ShowPlan():
                return self._plan()
            case GetNodeUse(node, span_s):
                return self._node_use(node, span_s)
            case ListNodesInUse():
                return self._in_use()
            case ListDevices():
                return self.devices
            case GetSeries():
                return SeriesNews(NOW, self._numbers())
            case QueryState(query):
                nodes = [row.node_id for row in self.snapshot.status.nodes]
                if query.kind == "tasks":
                    return drawn_tasks.told(query, self.tasks)
                if query.kind in ("actors", "drivers"):
                    return drawn_tasks.actors(query, nodes)
                return drawn_tasks.objects(query, nodes)
        return super().ask(request)

    def _in_use(self) -> dict[str, dict[str, float]]:
        rng = random.Random(11)
        return {
            row.node_id: {
                name: round((total - row.available.get(name, 0.0)) * rng.uniform(0.3, 0.95), 2)
                for name, total in row.total.items()
            }
            for row in self.snapshot.status.nodes
        }

    def _numbers(self) -> list[NumberOverTime]:
        rng = random.Random(3)
        total = {"GPU": 192.0, "CPU": 2304.0, "memory": 24 * 1024 * GIB}
        found = []
        for name, all_of_it in total.items():
            allocated, used, whole = Series(), Series(), Series()
            part = 0.7
            for at in range(90):
                part = min(max(part + rng.uniform(-0.03, 0.032), 0.3), 0.97)
                when = NOW - 900 + 10 * at
                allocated.add(when, part * all_of_it)
                used.add(when, part * all_of_it * 0.7)
                whole.add(when, all_of_it * (1.0 if at > 30 else 0.9))
            found += [
                NumberOverTime("allocated", name, allocated.points_after(0.0)),
                NumberOverTime("used", name, used.points_after(0.0)),
                NumberOverTime("total", name, whole.points_after(0.0)),
            ]
        for what, base in (("running", 20), ("waiting", 6)):
            counted = Series()
            for at in range(90):
                counted.add(NOW - 900 + 10 * at, base + rng.randint(-2, 2))
            found.append(NumberOverTime("jobs", what, counted.points_after(0.0)))
        return found

    def _node_use(self, node_id: str, span_s: float) -> NodeUse:
        """Return what a machine uses, and its processes: the members of the gangs there, and a few
        workers.
        """
        rng = random.Random(node_id)
        totals = {"GPU": 8.0, "CPU": 96.0, "memory": 1024 * GIB}
        agos = [span_s * (90 - at) / 90 for at in range(90)]
        numbers = []
        for name, total in totals.items():
            part = 0.7
            parts = []
            for _ in agos:
                part = min(max(part + rng.uniform(-0.06, 0.06), 0.2), 0.97)
                parts.append(part)
            lines = {
                "total": [total] * len(agos),
                "allocated": [total * (0.75 if at < 30 else 1.0) for at in range(len(agos))],
                "used": [total * part for part in parts],
            }
            numbers += [
                NumberOfNode(what=what, of=name, points=list(zip(agos, values, strict=True)))
                for what, values in lines.items()
            ]
        members = [
            ProcessOfNode(
                kind="member",
                job=one.job,
                name=f"worker-{at}",
                pid=rng.randint(2_000, 60_000),
                age_s=rng.uniform(60, 20_000),
                cpus=rng.uniform(0, 8),
                memory=rng.uniform(1, 90) * GIB,
            )
            for one, _ in self.running
            for at, node in enumerate(one.nodes)
            if node == node_id
        ]
        workers = [
            ProcessOfNode(kind="worker", name=name, pid=4_000 + at, age_s=300.0)
            for at, name in enumerate(("runs tasks", "runs tasks", "idle"))
        ]
        return NodeUse(numbers=numbers, processes=members + workers)

    def _plan(self) -> TimePlan:
        running = []
        for one, ends in self.running:
            for at in sorted(set(one.nodes)):
                count = float(one.nodes.count(at))
                place = Place(node=at, tasks=int(count), devices={"nvidia.com/gpu": count})
                running.append(RunningPlace(podgroup=one.job, place=place, ends_s=ends))
        starts = []
        names = [row.node_id for row in self.snapshot.status.nodes]
        for turn, (begin, length) in enumerate(((1_800, 3_600), (6_780, 20_000), (20_340, 9_000))):
            places = tuple(
                Place(node=one, tasks=4, devices={"nvidia.com/gpu": 4.0})
                for one in names[turn * 3 : turn * 3 + 3]
            )
            starts.append(
                PlannedStart(
                    podgroup=f"default/{TEAMS[turn]}-big-{turn}",
                    queue=TEAMS[turn],
                    at_s=NOW + begin,
                    ends_s=NOW + begin + length,
                    after_tasks=turn + 1,
                    basis=Basis(by_limit=turn + 1),
                    is_promised=turn == 1,
                    fills=turn == 0,
                    places=places,
                )
            )
        return TimePlan(
            now=NOW,
            starts=tuple(starts),
            running=tuple(running),
            unknown=("default/llm-big-2",),
        )
