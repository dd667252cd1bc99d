"""The data of the page Queues and of the page of one queue: shares, waiting jobs and running
jobs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import msgspec

from phalanx.dashboard.pages.metrics import ROOM, SPANS_S, Chart, Line, chart, written
from phalanx.dashboard.watch import ClusterSnapshot
from phalanx.model.jobs import states as st
from phalanx.model.rows.work import JobInfo, QueueInfo
from phalanx.observe.job_times import current
from phalanx.observe.series import Series
from phalanx.observe.usage import MAIN, sums

SHOWN = 50
ROOT = "root"


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """A queue's amounts of one resource: held, requested and configured amounts (None: not
    configured).
    """

    resource: str
    allocated: float
    requested: float
    guarantee: float | None
    deserved: float | None
    capability: float | None
    total: float
    """The total amount of the cluster."""

    def written(self, value: float) -> str:
        """Return an amount of the resource as text."""
        return written(self.resource, value)

    def percent(self, value: float | None) -> float:
        """Return an amount in percent of the whole cluster, at most 100."""
        return 0.0 if not value or not self.total else min(100 * value / self.total, 100.0)


class QueueLine(msgspec.Struct, frozen=True, kw_only=True):
    """A queue in the tree of queues."""

    queue: QueueInfo
    depth: int
    shares: list[Share]
    waiting: int
    running: int
    """`waiting` and `running`: the numbers of gangs and jobs that wait and that run, in the queue
    and in the queues below it.
    """
    words: list[str]
    """Remarks about the queue. Each continues a sentence that begins with "It"."""


class QueueTree(msgspec.Struct, frozen=True, kw_only=True):
    """The page of all queues. Each queue comes after its parent."""

    lines: list[QueueLine]


def queues(snapshot: ClusterSnapshot) -> QueueTree:
    """Return the tree of all queues except the root."""
    below: dict[str, list[QueueInfo]] = {}
    for queue in sorted(snapshot.queues, key=lambda queue: queue.name):
        if queue.name != ROOT:
            below.setdefault(queue.parent or ROOT, []).append(queue)
    totals = {name: total for name, (_, total) in sums(snapshot.status.nodes).items()}
    counts = _counts(below, _own_counts(snapshot))
    lines: list[QueueLine] = []
    stack = [(queue, 0) for queue in reversed(below.get(ROOT, []))]
    while stack:
        queue, depth = stack.pop()
        lines.append(_line(queue, depth, totals, counts[queue.name]))
        stack += [(one, depth + 1) for one in reversed(below.get(queue.name, []))]
    return QueueTree(lines=lines)


def _own_counts(snapshot: ClusterSnapshot) -> dict[str, tuple[int, int]]:
    """Return (waiting, running) for each queue: how many jobs, and how many gangs of programs, wait
    and run in it.

    The head's counts by phase differ from these numbers: a held job has no gang yet, and an array
    has a gang for each array task.
    """
    waiting = Counter(job.queue for job in snapshot.jobs if job.state == st.PENDING)
    running = Counter(job.queue for job in snapshot.jobs if job.state == st.RUNNING)
    for gang in snapshot.gangs:
        if not gang.job and gang.phase in ("Pending", "Inqueue"):
            waiting[gang.queue] += 1
        elif not gang.job and gang.phase == "Running":
            running[gang.queue] += 1
    return {name: (waiting[name], running[name]) for name in {*waiting, *running}}


def _counts(
    below: Mapping[str, list[QueueInfo]], own_counts: Mapping[str, tuple[int, int]]
) -> dict[str, tuple[int, int]]:
    """Return (waiting, running) for each queue, like `_own_counts`, but including the queues below
    it.
    """
    found: dict[str, tuple[int, int]] = {}
    stack = [(queue, False) for queue in below.get(ROOT, [])]
    while stack:
        queue, is_after = stack.pop()
        mine = below.get(queue.name, [])
        if is_after:
            own = own_counts.get(queue.name, (0, 0))
            parts = [own, *(found[one.name] for one in mine)]
            found[queue.name] = (sum(one[0] for one in parts), sum(one[1] for one in parts))
        else:
            stack += [(queue, True), *((one, False) for one in mine)]
    return found


def _line(
    queue: QueueInfo, depth: int, totals: Mapping[str, float], counts: tuple[int, int]
) -> QueueLine:
    named = [
        name
        for name in MAIN
        if any(
            name in of
            for of in (
                queue.allocated,
                queue.requested,
                queue.guarantee,
                queue.deserved,
                queue.capability,
            )
        )
    ]
    shares = [
        Share(
            resource=name,
            allocated=queue.allocated.get(name, 0.0),
            requested=queue.requested.get(name, 0.0),
            guarantee=queue.guarantee.get(name),
            deserved=queue.deserved.get(name),
            capability=queue.capability.get(name),
            total=totals.get(name, 0.0),
        )
        for name in named
    ]
    waiting, running = counts
    words = _words(queue, shares)
    return QueueLine(
        queue=queue, depth=depth, shares=shares, waiting=waiting, running=running, words=words
    )


def _words(queue: QueueInfo, shares: list[Share]) -> list[str]:
    words = []
    for share in shares:
        name, has = share.resource, share.allocated
        if share.guarantee is not None and has < share.guarantee and share.requested:
            words.append(
                f"has {share.written(has)} of its {share.written(share.guarantee)} guaranteed "
                f"{name}, and waits for {share.written(share.requested)}"
            )
        if share.deserved is not None and has > share.deserved:
            back = "; other queues may reclaim it" if queue.reclaimable else ""
            words.append(f"borrows {share.written(has - share.deserved)} {name}{back}")
        if share.capability is not None and has >= share.capability and share.requested:
            words.append(f"is at its limit of {share.written(share.capability)} {name}")
    return words


class QueuePage(msgspec.Struct, frozen=True, kw_only=True):
    """The page of one queue."""

    line: QueueLine
    curves: list[Chart]
    span: str
    waiting: list[JobInfo]
    """The waiting jobs, in the scheduler's order if the head reports it."""
    waiting_in_all: int
    running: list[JobInfo]
    running_in_all: int


def queue_page(
    snapshot: ClusterSnapshot,
    series: Mapping[tuple[str, str], Series],
    name: str,
    now: float,
    span: str = "15m",
) -> QueuePage | None:
    """Return the page of a queue; None when there is no such queue."""
    span = span if span in SPANS_S else "15m"
    line = next((line for line in queues(snapshot).lines if line.queue.name == name), None)
    if line is None:
        return None
    of_it = [job for job in snapshot.jobs if job.queue == name]
    waiting = [job for job in of_it if job.state == st.PENDING]
    running = [job for job in of_it if job.state != st.PENDING and job.running]
    waiting.sort(key=lambda job: (job.position is None, job.position, job.submitted))
    return QueuePage(
        line=line,
        curves=[
            _curve(
                chart(
                    series,
                    share.resource,
                    {"allocated": (f"queue {name}", share.resource)},
                    now,
                    SPANS_S[span],
                ),
                share,
            )
            for share in line.shares[:2]
        ],
        span=span,
        waiting=current(waiting[:SHOWN], now),
        waiting_in_all=len(waiting),
        running=current(sorted(running, key=lambda job: job.started or 0.0)[:SHOWN], now),
        running_in_all=len(running),
    )


def _curve(chart: Chart, share: Share) -> Chart:
    """Return a chart with lines for the amounts that the queue deserves and may hold at most."""
    if not chart.lines:
        return chart
    levels = {"deserved": share.deserved, "at most": share.capability}
    lines = [
        Line(name=name, kind=name.replace(" ", "-"), points=[(chart.span_s, value), (0.0, value)])
        for name, value in levels.items()
        if value is not None
    ]
    top = max([chart.top, *(ROOM * line.points[0][1] for line in lines)])
    return msgspec.structs.replace(chart, lines=[*lines, *chart.lines], top=top)
