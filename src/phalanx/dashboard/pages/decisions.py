"""What did the scheduler decide in the last cycles, and why not mine?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from phalanx.dashboard.watch import SessionView
from phalanx.model.rows.cycles import CycleInfo
from phalanx.observe.cycles import Difference, Verdict, difference, verdicts


class DecisionsPage(msgspec.Struct, frozen=True, kw_only=True):
    """The last cycles, the newest first."""

    cycles: list[CycleInfo]
    actions: list[str]
    """That any of them had, in the order in which they run."""
    longest_s: float


def decisions(cycles: Sequence[CycleInfo]) -> DecisionsPage:
    """`cycles`: the oldest first."""
    actions = dict.fromkeys(name for one in reversed(cycles) for name in one.actions)
    most = max(cycles, key=lambda one: len(one.actions), default=None)
    ordered = dict.fromkeys([*(most.actions if most is not None else ()), *actions])
    return DecisionsPage(
        cycles=list(reversed(cycles)),
        actions=list(ordered),
        longest_s=max((one.took_s for one in cycles), default=0.0),
    )


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """What a cycle came to for a gang; of one that still waits, why, by what is known now."""

    verdict: Verdict
    job: str
    """NAMESPACE/NAME, where it is a job's that is still known; else empty."""
    reason: str
    code: str
    plugin: str
    """Of the scheduler, which gives that reason."""
    won: str
    """Which node won, and by which scores, where that was noted."""


class CyclePage(msgspec.Struct, frozen=True, kw_only=True):
    """One cycle."""

    cycle: CycleInfo
    before: int | None
    lines: list[Line]
    news: Difference | None


def cycle_page(picture: SessionView, found: Sequence[CycleInfo]) -> CyclePage:
    """The last of one or two cycles."""
    names = {row.node_id: row.hostname or row.host for row in picture.status.nodes}
    jobs = {f"{job.namespace}/{job.name}": job for job in picture.jobs}
    lines = []
    for verdict in verdicts(found[-1]):
        job = jobs.get(verdict.gang)
        waits = verdict.verdict in ("left", "promised") and job is not None and job.pending
        lines.append(
            Line(
                verdict=verdict,
                job=verdict.gang if job is not None else "",
                reason=job.reason if job is not None and waits else "",
                code=picture.waits.get(verdict.gang, "") if waits else "",
                plugin=picture.refusers.get(verdict.gang, "") if waits else "",
                won=verdict.won(_name(verdict, names)),
            )
        )
    before = found[-2].number if len(found) > 1 else None
    return CyclePage(cycle=found[-1], before=before, lines=lines, news=difference(found))


def _name(verdict: Verdict, names: Mapping[str, str]) -> str:
    """Of the node that its first member went to."""
    node = verdict.chosen.first if verdict.chosen is not None else ""
    return names.get(node, node[:12])
