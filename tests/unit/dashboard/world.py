"""A made-up cluster as a head describes it: names that attack pages, devices that are shared, and a
tree of queues.
"""

from __future__ import annotations

import json
from typing import Any

from phalanx.dashboard.watch import ClusterSnapshot
from phalanx.errors import JobNotFoundError
from phalanx.model.attempts import Attempt
from phalanx.model.jobs import states as st
from phalanx.model.member_use import MemberUse
from phalanx.model.node_use import NodeUse, NumberOfNode, ProcessOfNode
from phalanx.model.rows.cluster import DefectInfo, NodeInfo, StatusInfo
from phalanx.model.rows.cycles import CycleInfo, EvictedInfo, PlacedInfo, RefusedInfo
from phalanx.model.rows.devices import DeviceInfo
from phalanx.model.rows.events import EventInfo
from phalanx.model.rows.explanation import ExpectedStart, Explanation, Reason
from phalanx.model.rows.plan import Basis, Place, PlannedStart, RunningPlace, TimePlan
from phalanx.model.rows.work import (
    GangInfo,
    JobDescription,
    JobInfo,
    LogFile,
    MemberInfo,
    QueueInfo,
    RoleInfo,
    RulesInfo,
    TransitionInfo,
)
from phalanx.observe.accounting.questions import AttemptPage, UsageRow
from phalanx.observe.accounting.sums import HourSum
from phalanx.observe.events import EventPage, is_meant
from phalanx.observe.health import HeadReport
from phalanx.observe.metrics.definitions import Numbers, Sample
from phalanx.observe.series import Series
from phalanx.observe.state.query import StateAnswer, StatePart, StateQuery, lets_through
from phalanx.protocol.messages import PROTOCOL_VERSION
from phalanx.protocol.requests.accounting import GetUsage, ListAttempts
from phalanx.protocol.requests.actors import ExplainActor
from phalanx.protocol.requests.cluster import GetHealth, GetStatus
from phalanx.protocol.requests.events import ListEvents
from phalanx.protocol.requests.gangs import Explain, GetRules, ListCycles, ShowPlan, TakeSnapshot
from phalanx.protocol.requests.health import ListDevices
from phalanx.protocol.requests.jobs import CommandJob, GetJob, GetMemberUse, LogPart, ReadJobLog
from phalanx.protocol.requests.metrics import GetMetrics, MetricsNews, MetricsSince
from phalanx.protocol.requests.news import ClusterNews, GetNews, ListWaiting, Since, WaitInfo
from phalanx.protocol.requests.node_use import GetNodeUse, ListNodesInUse
from phalanx.protocol.requests.series import GetSeries, NumberOverTime, SeriesNews
from phalanx.protocol.requests.state import QueryState

NOW = 1_790_000_000.0
EVIL = "<img src=x onerror=alert(1)>'\"&{{7*7}}\u202e"
GIB = 2.0**30
START = ExpectedStart(
    at_s=NOW + 600, in_s=600, after_tasks=3, basis=Basis(by_limit=2), is_promised=True
)


def node(number: int, left: list[int] | None = None, **fields: Any) -> NodeInfo:
    """Return a node, of two devices by default; `left` is in units of 1/10000."""
    left = [10_000, 10_000] if left is None else left
    free = {"CPU": 8.0, "memory": GIB}
    total: dict[str, float] = {"CPU": 16.0, "memory": 4 * GIB}
    if left:
        free["GPU"], total["GPU"] = sum(left) / 10_000, float(len(left))
    known: dict[str, Any] = {
        "node_id": f"{number:056x}", "state": "ALIVE", "reason": "", "host": "10.0.0.1",
        "port": 7000 + number, "hostname": f"n{number:04}", "total": total, "available": free,
        "labels": {"zone": EVIL}, "running": 2, "waiting": 0, "devices": {"GPU": left},
    }  # fmt: skip
    return NodeInfo(**known | fields)


def device(row: NodeInfo, number: int, **fields: Any) -> DeviceInfo:
    """Return a GPU of a node for which all values were read."""
    known: dict[str, Any] = {
        "state": "ok", "action": "", "reason": EVIL, "is_closed": False, "left": 1.0,
        "holders": [], "busy": 0.5, "memory_used": 2**30, "memory_total": 4 * 2**30,
        "power_w": 300.0, "temperature_c": 51.0,
    }  # fmt: skip
    return DeviceInfo(node_id=row.node_id, number=number, **known | fields)


def job(name: str, state: str = st.RUNNING, **fields: Any) -> JobInfo:
    """Return a job of one member in the queue `lab`."""
    known: dict[str, Any] = {
        "name": name, "namespace": "default", "queue": "lab", "state": state, "reason": "",
        "kind": "batch", "replicas": 1, "min": 1, "pending": int(state == st.PENDING),
        "running": int(state == st.RUNNING), "succeeded": 0, "failed": 0, "retries": 0,
        "priority": 0, "position": None, "submitted": NOW - 60, "recorded_as": NOW - 60,
        "started": None, "finished": None,
        "age_s": 60.0, "time_limit_s": None, "ran_s": 0.0, "ends": None, "begins": None,
        "deadline": None, "is_held": False, "restarts": 0, "annotations": {}, "after": "",
        "array": "", "expected_start": None, "user": "", "reservation": "", "licenses": {},
        "queued": NOW - 60,
        "gpus": 0.0,
    }  # fmt: skip
    return JobInfo(**known | fields)


def gang(number: int, nodes: list[NodeInfo], devices: list[list[int]], **fields: Any) -> GangInfo:
    """Return a gang. Each member is on one of the nodes, with the devices at the same position."""
    known: dict[str, Any] = {
        "name": f"g{number}", "group": f"{number:032x}", "queue": "lab", "priority": 0,
        "phase": "Running", "members": ["running"] * len(nodes), "min_members": len(nodes),
        "created": NOW - 60, "started": NOW - 50, "preempted": 0, "ports": [],
        "nodes": [row.node_id for row in nodes], "devices": [{"GPU": one} for one in devices],
        "job": f"default/g{number}",
    }  # fmt: skip
    return GangInfo(**known | fields)


def queue(name: str, **fields: Any) -> QueueInfo:
    """Return an open queue below the root."""
    known: dict[str, Any] = {
        "name": name, "state": "Open", "weight": 1, "priority": 0, "parent": "root",
        "reclaimable": True, "members": 0, "capability": {}, "deserved": {}, "guarantee": {},
        "allocated": {}, "requested": {}, "default_time_s": None, "max_time_s": None,
        "pending": 0, "inqueue": 0, "running": 0, "unknown": 0, "completed": 0,
    }  # fmt: skip
    return QueueInfo(**known | fields)


def event(number: int, kind: str, **fields: Any) -> EventInfo:
    """Return an event whose time is `number` seconds after a quarter of an hour ago."""
    return EventInfo(number=number, at=NOW - 900 + number, kind=kind, **fields)


NUMBERS = [
    Numbers("phalanx_loop_lag_seconds", [Sample(("", "head"), 0.002)]),
    Numbers("phalanx_store_bytes", [Sample((), 4096.0)]),
    Numbers("phalanx_journal_bytes", [Sample((), 512.0)]),
    Numbers("phalanx_store_commit_seconds", [Sample((), 0.5, [90.0, 10.0])]),
    Numbers("phalanx_schedule_cycle_seconds", [Sample((), 1.0, [200.0, 50.0])]),
    Numbers("phalanx_schedule_cycles_total", [Sample(("placed",), 250.0)]),
    Numbers(
        "phalanx_rpc_seconds",
        [Sample((EVIL,), 2.0, [4.0, 0.0]), Sample(("GetNews",), 3.0, [50.0, 50.0])],
    ),
]
EVENTS = [
    event(1, "node-joined", node=node(1).node_id, host="n0001"),
    event(2, "submitted", job="default/runs", queue="lab", user=EVIL, by=EVIL),
    event(3, "placed", job="default/runs", queue="lab", user=EVIL, members=1,
          places=((node(1).node_id, "n0001", 1),)),
    event(4, "reclaimed", job=f"default/{EVIL}", queue=EVIL, by="default/runs", members=1,
          places=((node(1).node_id, EVIL, 1),)),
    event(5, "preempted", job="default/runs", queue="lab", by="default/next", members=1,
          places=((node(1).node_id, "n0001", 1),)),
    event(6, "rules-refused", name=EVIL, by=EVIL, why=EVIL),
    event(7, "queue-changed", queue=EVIL, why=EVIL, by="ana"),
    event(8, "node-lost", node=node(3).node_id, host=EVIL, why=EVIL),
]  # fmt: skip


def cycle(number: int, **fields: Any) -> CycleInfo:
    """Return a cycle that placed one gang, evicted members of another, and left a third waiting."""
    known: dict[str, Any] = {
        "number": number, "at": NOW - 100 + number, "repeats": 0, "took_s": 0.004,
        "read_s": 0.001, "actions": {"allocate": 0.002, "reclaim": 0.0005}, "may_evict": True,
        "considered": 3,
        "placed": [placed_info()],
        "evicted": [EvictedInfo(gang=EVIL, queue=EVIL, members=2, action="reclaim",
                                claimant="default/next")],
        "promised": ["default/next"], "left": [f"default/{EVIL}", "default/gone"],
        "counts": {"placed": 1, "evicted": 1, "promised": 1, "left": 2}, "warnings": [EVIL],
    }  # fmt: skip
    return CycleInfo(**known | fields)


def placed_info(**fields: Any) -> PlacedInfo:
    """Return the row of a gang that was placed."""
    known: dict[str, Any] = {
        "gang": "default/runs", "queue": "lab", "members": 1, "nodes": [node(1).node_id],
        "node_count": 1,
    }  # fmt: skip
    return PlacedInfo(**known | fields)


CYCLES = [
    cycle(1, placed=[], evicted=[], promised=[], left=["default/next", "default/old"]),
    cycle(
        2,
        repeats=3,
        placed=[placed_info(first=node(1).node_id, among=2, scores={EVIL: 1.5})],
        refused=[RefusedInfo(gang="default/gone", plugin=EVIL, code="license", sentence=EVIL)],
    ),
]


def snapshot(**fields: Any) -> ClusterSnapshot:
    """Return a snapshot of two nodes, a gang, and jobs of all kinds. Half of one device is held by
    a task.
    """
    nodes = [node(1, [0, 5_000]), node(2), node(3, [], state="DEAD", reason=EVIL)]
    known: dict[str, Any] = {
        "version": 1,
        "at": NOW,
        "status": StatusInfo(
            address="127.0.0.1:6380", store="memory", nodes=nodes, actors={"ALIVE": 2},
            groups=[], jobs=[], gangs={}, troubles=[EVIL],
            stranded={nodes[0].node_id: {"GPU": 0.5}},
            defects={"gang": DefectInfo(count=1, last=EVIL, at=NOW)},
        ),
        "jobs": [
            job("runs", user=EVIL, reservation="r", licenses={EVIL: 2}),
            job(EVIL, st.PENDING, reason=EVIL, position=2, expected_start=START, queue=EVIL),
            job("next", st.PENDING, position=1, submitted=NOW - 90),
            job("broke", st.FAILED, reason=EVIL, finished=NOW - 5),
        ],
        "gangs": [gang(1, [nodes[0]], [[0]])],
        "queues": [
            queue("root"),
            queue("lab", deserved={"GPU": 1.0}, allocated={"GPU": 2.0}, requested={"GPU": 1.0}),
            queue("part", parent="lab", guarantee={"GPU": 2.0}, requested={"GPU": 1.0}),
            queue(EVIL, capability={"CPU": 4.0}, allocated={"CPU": 4.0}, requested={"CPU": 1.0}),
        ],
        "events": EVENTS,
    }  # fmt: skip
    return ClusterSnapshot(**known | fields)


def description(row: JobInfo) -> JobDescription:
    """Return the description of a job whose only member has printed something."""
    member = MemberInfo(
        name=f"{EVIL}-0", state=row.state, attempt=1, node=node(1).node_id,
        devices={"GPU": [0]}, exit_code=None, reason=EVIL, started=NOW - 9, ended=None,
        logs=[LogFile(node=node(1).node_id, path="a-0.1.log")],
    )  # fmt: skip
    past = TransitionInfo(at=NOW - 60, old="", new=st.PENDING, reason=EVIL)
    role = RoleInfo(name="worker", replicas=1, command=EVIL, needs={"GPU": 1.0})
    return JobDescription(
        **row.as_dict(), ports=[1], preempted=0, members=[member], history=[past], roles=[role]
    )


PLAN = TimePlan(
    now=NOW,
    starts=(
        PlannedStart(
            podgroup=EVIL, queue=EVIL, at_s=NOW + 60, ends_s=None, after_tasks=1, basis=Basis(),
            is_promised=True, fills=False,
            places=(Place(node=node(1).node_id, tasks=1, devices={"nvidia.com/gpu": 1.0}),),
        ),
    ),
    unknown=(EVIL,),
    running=(
        RunningPlace(
            podgroup="default/runs",
            place=Place(node=node(1).node_id, tasks=1, devices={}),
            ends_s=NOW + 120,
        ),
    ),
)  # fmt: skip
WHY = Explanation(
    snapshot="", name=EVIL, kind="podgroup", waits=True, position=2, expected_start=START,
    reasons=[Reason(reason="quota", count=1, detail={}, sentence=EVIL, change=EVIL)],
    because=[Reason(reason="guarantee", count=1, detail={}, sentence=EVIL, change=EVIL)],
)  # fmt: skip
USE = MemberUse(cpus=[(5.0, 1.5), (5.0, 0.5)], memory=[(10.0, 2.0**30)])
NODE_USE = NodeUse(
    numbers=[
        NumberOfNode(what="total", of="CPU", points=[(20.0, 4.0), (10.0, 4.0)]),
        NumberOfNode(what="used", of="CPU", points=[(20.0, 0.5), (10.0, 2.5)]),
        NumberOfNode(what="allocated", of="CPU", points=[(20.0, 1.0), (10.0, 3.0)]),
        NumberOfNode(what="used", of="memory", points=[(10.0, 2.0**30)]),
    ],
    processes=[
        ProcessOfNode(kind="driver", name="", pid=40, age_s=60.0),
        ProcessOfNode(
            kind="member", job="default/one", name=EVIL, pid=41, age_s=30.0, cpus=1.5,
            memory=2.0**30,
        ),
    ],
)  # fmt: skip
IN_USE = {node(1).node_id: {"CPU": 2.5, "GPU": 1.25, "memory": 2.0**30}}
PRINTED = b"\x1b[31mred\x1b[0m <b>one</b>\n" + b" 1%\r 50%\r100%\n" + b"\x1b]0;title\x07end\n"


def name_of(row: JobInfo) -> str:
    """Return NAMESPACE/NAME of a job."""
    return f"{row.namespace}/{row.name}"


SNAPSHOT = json.dumps(
    {
        "format": "phalanx-snapshot/1",
        "now": NOW,
        "config": {
            "actions": ["allocate"],
            "tiers": [{"plugins": [{"name": "gang"}, {"name": "predicates"}]}],
        },
        "nodes": [{"name": f"{1:056x}", "capacity": {"cpu": 4, "memory": 8e9, "pods": 100}}],
        "queues": [{"name": "lab"}],
        "podgroups": [{"name": EVIL, "queue": "lab", "minMember": 2}],
        "tasks": [
            {"name": f"{EVIL}-{n}", "podgroup": EVIL, "request": {"cpu": 3}} for n in range(2)
        ],
    }
).encode()
"""A snapshot in which two members of three CPUs each wait for a node of four."""
ATTEMPT = Attempt(
    job=EVIL, namespace="default", member="a-0", attempt=1, user=EVIL, queue="lab", command=EVIL,
    state="Failed", reason=EVIL, exit_code=3, node=EVIL, submitted=NOW - 60, started=NOW - 50,
    ended=NOW - 10,
)  # fmt: skip
STORE = {
    "node_id": f"{1:056x}", "objects": 3, "shared_bytes": 3 * GIB, "capacity_bytes": 4 * GIB,
    "spilled_objects": 1, "spilled_bytes": GIB,
}  # fmt: skip
OBJECT = {
    "object_id": "ab" * 28, "object_size": GIB, "reference_type": "LOCAL_REFERENCE",
    "type": "Driver", "pid": 7, "node_id": f"{1:056x}", "task_status": "FINISHED",
    "call_site": EVIL,
}  # fmt: skip


def task(number: int, **fields: Any) -> dict[str, Any]:
    """Return a finished attempt of a task on node 1, which ran for a second."""
    known: dict[str, Any] = {
        "task_id": f"{number:048x}", "attempt_number": 0, "name": "load", "state": "FINISHED",
        "type": "NORMAL_TASK", "func_or_class_name": "load", "node_id": f"{1:056x}",
        "worker_id": "aa" * 28, "worker_pid": 41, "job_id": "01000000",
        "required_resources": {"CPU": 1.0}, "creation_time_ms": 1000 * (NOW - 3),
        "start_time_ms": int(1000 * (NOW - 2)), "end_time_ms": int(1000 * (NOW - 1)),
    }  # fmt: skip
    return known | fields


TASKS = [
    task(1),
    task(2, name=EVIL, func_or_class_name=EVIL, state="FAILED", error_type=EVIL, worker_pid=None),
    task(2, attempt_number=1, name=EVIL, state="RUNNING", start_time_ms=None, end_time_ms=None,
         worker_id="bb" * 28, parent_task_id=f"{1:048x}"),
]  # fmt: skip


def actor(number: int, **fields: Any) -> dict[str, Any]:
    """Return a living actor on node 1, of the program in `DRIVERS`."""
    known: dict[str, Any] = {
        "actor_id": f"{number:032x}", "class_name": "Trainer", "state": "ALIVE",
        "job_id": "01000000", "name": "", "node_id": f"{1:056x}", "pid": 40 + number,
        "death_cause": None, "num_restarts": 0, "start_time_ms": int(1000 * (NOW - 90)),
        "end_time_ms": None,
    }  # fmt: skip
    return known | fields


ACTORS = [
    actor(1, name=EVIL, class_name=EVIL),
    actor(2, state="PENDING_CREATION", node_id=None, pid=None, start_time_ms=None),
    actor(3, state="DEAD", death_cause={"error_message": f"node {1:056x}: {EVIL}"},
          end_time_ms=int(1000 * (NOW - 30)), num_restarts=2, job_id="02000000"),
]  # fmt: skip
DRIVERS = [{"job_id": "01000000", "entrypoint": f"python {EVIL}", "state": "RUNNING"}]


class Head:
    """Answers a page's requests from rows."""

    def __init__(self) -> None:
        self.snapshot = snapshot()
        self.commands: list[CommandJob] = []
        self.error: Exception | None = None
        self.actors = ACTORS
        self.tasks = TASKS
        self.metrics = MetricsNews(MetricsSince(1.0), True, False, [], [], [])

    def ask(self, request: Any) -> Any:
        if self.error is not None:
            raise self.error
        match request:
            case GetStatus():
                return self.snapshot.status
            case GetNews():
                return self._news()
            case GetSeries():
                used = Series()
                used.add(NOW, 1.5)
                return SeriesNews(NOW, [NumberOverTime("allocated", "GPU", used.points_after(0.0))])
            case GetHealth():
                return HeadReport(
                    began=NOW - 3600, protocol=PROTOCOL_VERSION, known={"nodes": 2, EVIL: 1},
                    numbers=NUMBERS,
                )  # fmt: skip
            case GetRules():
                return RulesInfo(
                    text="", file=EVIL, is_own=True, actions=["allocate"], plugins=["gang"]
                )
            case ListCycles(number):
                if number is not None and number > len(CYCLES):
                    raise JobNotFoundError(f"there is no cycle {number}")
                return CYCLES if number is None else CYCLES[max(number - 2, 0) : number]
            case ListEvents(query):
                found = [one for one in self.snapshot.events if is_meant(one, query)]
                return EventPage(events=found, newest=8, kept=len(self.snapshot.events))
            case ListWaiting():
                return [
                    WaitInfo(
                        f"{row.namespace}/{row.name}",
                        row.reason,
                        row.position,
                        row.expected_start,
                        "queue-quota",
                    )
                    for row in self.snapshot.jobs
                    if row.position is not None
                ]
            case GetMetrics():
                return self.metrics
            case ListDevices():
                return [device(node(1), 0), device(node(1), 1, state="bad", is_closed=True)]
            case GetJob(name):
                return description(self._job(name))
            case Explain() | ExplainActor():
                return WHY
            case ShowPlan():
                return PLAN
            case TakeSnapshot():
                return SNAPSHOT
            case GetUsage():
                return [UsageRow(user=EVIL, queue="lab", sum=HourSum(attempts=3, completed=2,
                                 cpu_s=7200.0, gpu_s=3600.0, gpu_known_s=3600.0,
                                 gpu_used_s=900.0, gpu_idle_s=1800.0))]  # fmt: skip
            case ListAttempts():
                return AttemptPage(attempts=[ATTEMPT])
            case QueryState(query) if query.kind == "stores":
                return StateAnswer(StatePart([STORE], 1, 1), [])
            case QueryState(query) if query.kind == "objects" and not query.count_by:
                return StateAnswer(StatePart([OBJECT], 1, 1), [EVIL])
            case QueryState(query) if query.kind == "tasks" and not query.count_by:
                rows = self._tasks(query)
                return StateAnswer(StatePart(rows, len(rows), len(rows)), [EVIL])
            case QueryState(query) if query.kind in ("actors", "drivers") and not query.count_by:
                every: list[Any] = self.actors if query.kind == "actors" else DRIVERS
                rows = [row for row in every if lets_through(query.filters, row)]
                return StateAnswer(StatePart(rows[: query.limit], len(every), len(rows)), [])
            case QueryState(query):
                state = "FAILED" if query.kind == "tasks" else "RUNNING"
                counts: Any = [([EVIL, EVIL, EVIL, state][-len(query.count_by) :], 3, 0.0)]
                return StateAnswer(StatePart([], 3, 3, counts), [EVIL])
            case ListNodesInUse():
                return IN_USE
            case GetNodeUse():
                return NODE_USE
            case GetMemberUse():
                return USE
            case ReadJobLog(_, _, _, offset):
                return LogPart(PRINTED[offset:], len(PRINTED))
            case CommandJob():
                self.commands.append(request)
                return None
        raise AssertionError(request)

    def _tasks(self, query: StateQuery) -> list[Any]:
        return [row for row in self.tasks if lets_through(query.filters, row)]

    def _news(self) -> ClusterNews:
        """Return all rows as changed, each time."""
        return ClusterNews(
            since=Since(1.0), is_new=True, is_more=False, nodes=self.snapshot.status.nodes,
            jobs=self.snapshot.jobs, gangs=self.snapshot.gangs, gone_nodes=[], gone_jobs=[],
            gone_gangs=[], queues=self.snapshot.queues,
        )  # fmt: skip

    def _job(self, name: str) -> JobInfo:
        for row in self.snapshot.jobs:
            if name_of(row) == name:
                return row
        raise JobNotFoundError(f"there is no job {name}")
