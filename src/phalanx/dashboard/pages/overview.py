"""Data of the page Overview: troubles, use of the cluster, waiting and failed jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import msgspec

from phalanx.dashboard.pages.metrics import SPANS_S, Curve, Gauge, curve, gauges, jobs_by_state
from phalanx.dashboard.watch import SessionView
from phalanx.model.jobs import states as st
from phalanx.model.lifecycle import ALIVE
from phalanx.model.rows.cluster import DriverInfo, NodeInfo
from phalanx.model.rows.work import JobInfo
from phalanx.observe.series import Series
from phalanx.observe.stranded import stranded_in_all
from phalanx.observe.usage import MAIN

SHOWN = 8
FAILED = frozenset({st.FAILED, st.TIMED_OUT, st.DEADLINE, st.DEPENDENCY_FAILED})


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """The page Overview."""

    gauges: list[Gauge]
    stranded: dict[str, float]
    """Free amounts by resource on nodes where no work fits that waits for the resource."""
    curves: list[Curve]
    span: str
    nodes: dict[str, int]
    """Number of nodes by state."""
    jobs: dict[str, int]
    drivers: list[DriverInfo]
    actors: dict[str, int]
    troubles: list[str]
    ailing: list[NodeInfo]
    """Nodes that are not alive or have a reason to show."""
    waiting: list[JobInfo]
    """The jobs that wait longest."""
    waiting_in_all: int
    failed: list[JobInfo]
    """The jobs that failed last."""


def overview(
    picture: SessionView, series: Mapping[tuple[str, str], Series], now: float, span: str = "15m"
) -> Overview:
    """Return the page as of `now`, in seconds since the epoch."""
    span = span if span in SPANS_S else "15m"
    waiting = [job for job in picture.jobs if job.state == st.PENDING]
    failed = [job for job in picture.jobs if job.state in FAILED and job.finished is not None]
    shown = gauges(picture)
    defects = [
        f"{row.count} errors about a {kind}; the last: {row.last}"
        for kind, row in sorted(picture.status.defects.items())
    ]
    return Overview(
        gauges=shown,
        stranded={
            name: amount
            for name, amount in stranded_in_all(picture.status.stranded).items()
            if name in MAIN
        },
        curves=[curve(series, ("allocated", one.name), now, SPANS_S[span]) for one in shown[:2]],
        span=span,
        nodes=dict(Counter(row.state.lower() for row in picture.status.nodes)),
        jobs=jobs_by_state(picture.jobs),
        drivers=picture.status.jobs[:SHOWN],
        actors=picture.status.actors,
        troubles=[*picture.status.troubles, *defects],
        ailing=[row for row in picture.status.nodes if row.state != ALIVE or row.reason][:SHOWN],
        waiting=sorted(waiting, key=lambda job: job.submitted)[:SHOWN],
        waiting_in_all=len(waiting),
        failed=sorted(failed, key=lambda job: -(job.finished or 0.0))[:SHOWN],
    )
