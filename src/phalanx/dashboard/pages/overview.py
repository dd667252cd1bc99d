"""The data of the page Overview: problems, the use of the cluster, and waiting and failed jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import msgspec

from phalanx.dashboard.pages.device_map import name_of
from phalanx.dashboard.pages.metrics import SPANS_S, Chart, Gauge, chart, gauges, jobs_by_state
from phalanx.dashboard.watch import ClusterSnapshot
from phalanx.model.jobs import states as st
from phalanx.model.lifecycle import ALIVE, DEAD
from phalanx.model.rows.cluster import DriverInfo, NodeInfo, current_nodes
from phalanx.model.rows.work import JobInfo
from phalanx.observe.device_health import BAD
from phalanx.observe.job_times import current
from phalanx.observe.series import Series
from phalanx.observe.stranded import stranded_in_all
from phalanx.observe.usage import MAIN

SHOWN = 8
LATELY_S = 3_600.0
_REASONS = 3
"""The number of kinds of reasons shown for each queue."""
FAILED = frozenset({st.FAILED, st.TIMED_OUT, st.DEADLINE, st.DEPENDENCY_FAILED})


class Reason(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs of a queue that wait for reasons of one kind: their number, and the reason of the first
    job.
    """

    count: int
    words: str
    is_same: bool = True
    """Whether all these jobs have the reason `words`. If not, `words` is the reason of the first
    job.
    """


class QueueWork(msgspec.Struct, frozen=True, kw_only=True):
    """The running and waiting jobs of one queue, and the reasons why they wait, the most frequent
    first.
    """

    name: str
    running: int
    waiting: int
    reasons: list[Reason]


class BadDevice(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU that is bad, suspect or cordoned, the id of its node, and the reason."""

    name: str
    node: str
    state: str
    why: str


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """The page Overview."""

    gauges: list[Gauge]
    stranded: dict[str, float]
    """For each resource: the free amount that none of the work waiting for this resource can use.
    """
    curves: list[Chart]
    queues: list[QueueWork]
    """The queues with work; queues with the most waiting work come first."""
    bad_devices: list[BadDevice]
    cordoned: int
    """The number of GPUs that are closed to new work although they are not bad."""
    cordoned_devices: list[BadDevice]
    """The first of the cordoned GPUs, for display."""
    failed_lately: int
    """The number of jobs that failed in the last hour."""
    span: str
    nodes: dict[str, int]
    """The number of nodes by state."""
    jobs: dict[str, int]
    drivers: list[DriverInfo]
    actors: dict[str, int]
    troubles: list[str]
    ailing: list[NodeInfo]
    """The nodes that are not alive, or that have a problem other than a bad GPU."""
    waiting: list[JobInfo]
    """The jobs that have waited longest."""
    waiting_in_all: int
    failed: list[JobInfo]
    """The jobs that failed most recently."""


def overview(
    snapshot: ClusterSnapshot,
    series: Mapping[tuple[str, str], Series],
    now: float,
    span: str = "15m",
) -> Overview:
    """Return the page as of `now`, in seconds since the epoch."""
    span = span if span in SPANS_S else "15m"
    waiting = [job for job in snapshot.jobs if job.state == st.PENDING]
    failed = [job for job in snapshot.jobs if job.state in FAILED and job.finished is not None]
    shown = gauges(snapshot)
    nodes = current_nodes(snapshot.status.nodes)
    cordoned = _cordoned(snapshot)
    defects = [
        f"{row.count} errors about a {kind}; the last: {row.last}"
        for kind, row in sorted(snapshot.status.defects.items())
    ]
    return Overview(
        gauges=shown,
        stranded={
            name: amount
            for name, amount in stranded_in_all(snapshot.status.stranded).items()
            if name in MAIN
        },
        curves=[
            *(_of_resource(series, one.name, now, SPANS_S[span]) for one in shown[:3]),
            chart(
                series,
                "jobs",
                {"running": ("jobs", "running"), "waiting": ("jobs", "waiting")},
                now,
                SPANS_S[span],
            ),
        ],
        queues=_work(snapshot)[:SHOWN],
        bad_devices=_bad_devices(snapshot)[:SHOWN],
        cordoned=len(cordoned),
        cordoned_devices=cordoned[:SHOWN],
        failed_lately=sum(now - (job.finished or 0.0) <= LATELY_S for job in failed),
        span=span,
        nodes=dict(Counter(row.state.lower() for row in nodes)),
        jobs=jobs_by_state(snapshot.jobs),
        drivers=snapshot.status.jobs[:SHOWN],
        actors=snapshot.status.actors,
        troubles=[*snapshot.status.troubles, *defects],
        ailing=[row for row in nodes if row.state != ALIVE or (row.reason and not row.unwell)][
            :SHOWN
        ],
        waiting=current(sorted(waiting, key=lambda job: job.submitted)[:SHOWN], now),
        waiting_in_all=len(waiting),
        failed=current(sorted(failed, key=lambda job: -(job.finished or 0.0))[:SHOWN], now),
    )


def _of_resource(
    series: Mapping[tuple[str, str], Series], name: str, now: float, span_s: float
) -> Chart:
    keys = {kind: (kind, name) for kind in ("total", "allocated", "used")}
    return chart(series, name, keys, now, span_s)


def _work(snapshot: ClusterSnapshot) -> list[QueueWork]:
    running: Counter[str] = Counter()
    waiting: dict[str, list[JobInfo]] = {}
    for job in snapshot.jobs:
        if job.state == st.PENDING:
            waiting.setdefault(job.queue, []).append(job)
        elif job.state == st.RUNNING:
            running[job.queue] += 1
    found = [
        QueueWork(
            name=name,
            running=running[name],
            waiting=len(waiting.get(name, ())),
            reasons=_reasons(snapshot, waiting.get(name, [])),
        )
        for name in sorted({*running, *waiting})
    ]
    return sorted(found, key=lambda one: (-one.waiting, -one.running, one.name))


def _reasons(snapshot: ClusterSnapshot, jobs: list[JobInfo]) -> list[Reason]:
    kinds: dict[str, list[JobInfo]] = {}
    for job in sorted(jobs, key=lambda job: (job.position or 0, job.submitted)):
        uid = f"{job.namespace}/{job.name}"
        kinds.setdefault(snapshot.waits.get(uid) or job.reason, []).append(job)
    ordered = sorted(kinds.values(), key=len, reverse=True)
    return [
        Reason(
            count=len(one),
            words=one[0].reason or "not yet known",
            is_same=len({job.reason for job in one}) == 1,
        )
        for one in ordered[:_REASONS]
    ]


def _bad_devices(snapshot: ClusterSnapshot) -> list[BadDevice]:
    return [
        BadDevice(name=f"{name_of(row)}/gpu{number}", node=row.node_id, state=state, why=why)
        for row in snapshot.status.nodes
        if row.state != DEAD
        for number, state, _, why in row.unwell
    ]


def _cordoned(snapshot: ClusterSnapshot) -> list[BadDevice]:
    return [
        BadDevice(name=f"{name_of(row)}/gpu{number}", node=row.node_id, state="cordoned", why="")
        for row in snapshot.status.nodes
        if row.state != DEAD
        for number in sorted(
            set(row.closed) - {number for number, state, *_ in row.unwell if state == BAD}
        )
    ]
