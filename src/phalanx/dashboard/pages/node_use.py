"""Charts of a node's usage over time, and the rows of its processes."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from phalanx.dashboard.pages.metrics import ROOM, SPANS_S, Chart, Line
from phalanx.model.node_use import MEMBER, NodeUse, ProcessOfNode

KINDS = ("total", "allocated", "used")
"""The kinds of lines, in the order in which they are drawn."""
RESOURCES = ("GPU", "CPU", "memory")
MOST_PROCESSES = 100


class Process(msgspec.Struct, frozen=True, kw_only=True):
    """A process of a node."""

    kind: str
    name: str
    job: str
    """For a member: NAMESPACE/NAME of its job; otherwise empty."""
    pid: int
    began: float
    """The time at which the process began, in seconds since the epoch."""
    cpus: float | None
    memory: float | None


class NodeUsePage(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a node's page that needs an answer of the node itself."""

    charts: list[Chart]
    processes: list[Process]
    """The processes: members before all others. In both groups, the process with the most memory
    comes first.
    """
    processes_in_all: int
    span: str


def span_of(query: Mapping[str, str]) -> str:
    """Return the name of the span that an address asks for."""
    asked = query.get("span", "")
    return asked if asked in SPANS_S else "15m"


def node_use(use: NodeUse, now: float, span: str) -> NodeUsePage:
    """Return the part of a node's page that is made from the node's own answer `use`. `now`:
    seconds since the epoch.
    """
    found = sorted(
        use.processes,
        key=lambda one: (one.kind != MEMBER, -(one.memory or 0.0), one.kind, one.age_s),
    )
    return NodeUsePage(
        charts=[one for name in RESOURCES for one in _chart(use, name, now, SPANS_S[span])],
        processes=[_process(one, now) for one in found[:MOST_PROCESSES]],
        processes_in_all=len(found),
        span=span,
    )


def _chart(use: NodeUse, resource: str, now: float, span_s: float) -> list[Chart]:
    """Return the chart of a resource; an empty list if the node has none of it."""
    points = {one.what: one.points for one in use.numbers if one.of == resource}
    lines = [Line(name=kind, kind=kind, points=points[kind]) for kind in KINDS if points.get(kind)]
    if not lines:
        return []
    top = max(value for line in lines for _, value in line.points)
    return [
        Chart(
            name=resource,
            unit=resource,
            lines=lines,
            top=top * ROOM or 1.0,
            at=now,
            span_s=span_s,
        )
    ]


def _process(one: ProcessOfNode, now: float) -> Process:
    return Process(
        kind=one.kind,
        name=one.name,
        job=one.job,
        pid=one.pid,
        began=round(now - one.age_s),
        cpus=None if one.cpus is None else round(one.cpus, 2),
        memory=one.memory,
    )
