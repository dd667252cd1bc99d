"""The data of the page Decisions and of the page of one cycle: the decisions, and the reasons for
them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from phalanx.dashboard.watch import ClusterSnapshot
from phalanx.model.rows.cycles import CycleInfo
from phalanx.observe.cycles import Difference, Verdict, difference, verdicts

SHOWN = 100
"""The number of cycles on the page. For twice this number, a browser needs a third of a second."""


class DecisionsPage(msgspec.Struct, frozen=True, kw_only=True):
    """The last cycles, newest first."""

    cycles: list[CycleInfo]
    in_all: int
    """The number of cycles that the head remembers."""
    actions: list[str]
    """All actions of these cycles, in the order in which they run."""
    longest_s: float


def decisions(cycles: Sequence[CycleInfo]) -> DecisionsPage:
    """Return the page for these cycles, which are given oldest first."""
    actions = dict.fromkeys(name for one in reversed(cycles) for name in one.actions)
    most = max(cycles, key=lambda one: len(one.actions), default=None)
    ordered = dict.fromkeys([*(most.actions if most is not None else ()), *actions])
    return DecisionsPage(
        cycles=list(reversed(cycles))[:SHOWN],
        in_all=len(cycles),
        actions=list(ordered),
        longest_s=max((one.took_s for one in cycles), default=0.0),
    )


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """A cycle's decision about a gang. If the gang still waits, the line also has the present
    reason.
    """

    verdict: Verdict
    job: str
    """NAMESPACE/NAME of the gang's job; empty if no such job is known."""
    reason: str
    code: str
    plugin: str
    """The scheduler's plugin that gives the reason."""
    won: str
    """The chosen node and its scores, if they were recorded."""


class CyclePage(msgspec.Struct, frozen=True, kw_only=True):
    """The page of one cycle."""

    cycle: CycleInfo
    before: int | None
    lines: list[Line]
    news: Difference | None


def cycle_page(snapshot: ClusterSnapshot, found: Sequence[CycleInfo]) -> CyclePage:
    """Return the page of the last cycle in `found`. The page compares this cycle with the one
    before it, if `found` has two.
    """
    names = {row.node_id: row.hostname or row.host for row in snapshot.status.nodes}
    jobs = {f"{job.namespace}/{job.name}": job for job in snapshot.jobs}
    lines = []
    for verdict in verdicts(found[-1]):
        job = jobs.get(verdict.gang)
        waits = verdict.verdict in ("left", "promised") and job is not None and job.pending
        lines.append(
            Line(
                verdict=verdict,
                job=verdict.gang if job is not None else "",
                reason=job.reason if job is not None and waits else "",
                code=snapshot.waits.get(verdict.gang, "") if waits else "",
                plugin=snapshot.refusers.get(verdict.gang, "") if waits else "",
                won=verdict.won(_name(verdict, names)),
            )
        )
    before = found[-2].number if len(found) > 1 else None
    return CyclePage(cycle=found[-1], before=before, lines=lines, news=difference(found))


def _name(verdict: Verdict, names: Mapping[str, str]) -> str:
    """Return the name of the node on which the first member was placed."""
    node = verdict.chosen.first if verdict.chosen is not None else ""
    return names.get(node, node[:12])
