"""The output of `phalanx simulate --lab`: a table with a row for each kind of work, and sentences
about the day.
"""

from __future__ import annotations

from collections.abc import Callable

from phalanx_research.lab.day import Day
from phalanx_research.lab.estimates import SLACK_S
from phalanx_research.lab.giving_way import SHORT_S, GaveWay
from phalanx_research.lab.outcome import KindFigures, Outcome, outcome
from phalanx_research.lab.people import Size

HEADERS = (
    "KIND", "JOBS", "STARTS", "WAIT P50", "P90", "P99", "GPU-HOURS", "TOLD", "BY THEN", "LATE P90",
)  # fmt: skip
_PAIRS = 6
"""The number of pairs of preempted and preempting kinds of work that are printed, the most frequent
first.
"""


def run(
    size: Size, seed: int, promised: int, restarts: int, progress: Callable[[float, float], None]
) -> Outcome:
    """Simulate the day. Raises ValueError for an invalid size."""
    for name, value, least, most in (
        ("--users", size.users, 1, 10_000),
        ("--machines", size.nodes, 4, 1_000),
        ("--hours", size.hours, 1, 168),
    ):
        if not least <= value <= most:
            raise ValueError(f"{name} must be {least} to {most:,}, not {value:g}")
    day = Day(size, seed, promised=promised, restarts=restarts)
    day.run(progress)
    return outcome(day)


def rows(found: Outcome) -> list[list[str]]:
    """Return the table's rows."""
    return [_row(one) for one in found.kinds]


def _row(one: KindFigures) -> list[str]:
    told = ["-", "-", "-"]
    if one.expected is not None:
        held = one.expected
        told = [f"{held.count}", f"{held.by_then_pct:.0f} %", _length(held.late_p90_s)]
    waits = [_length(s) for s in (one.wait_p50_s, one.wait_p90_s, one.wait_p99_s)]
    return [one.kind, f"{one.jobs}", f"{one.starts}", *waits, f"{one.gpu_hours:,.0f}", *told]


def sentences(found: Outcome) -> list[str]:
    """Return the sentences below the table."""
    states = ", ".join(f"{count} {state}" for state, count in found.states.items())
    said = [
        f"GPUs were in use for {found.busy_pct:.1f} % of the day, {found.busiest_pct:.1f} % in the "
        f"busiest hour. All work had ended after {found.hours:g} hours.",
        f"Jobs: {states}. {found.elements:,} array tasks, {found.attempts:,} attempts in the "
        f"history, {found.gave_way.count:,} of them preempted. {found.gave_up} users gave up "
        "waiting.",
    ]
    if found.gave_way.count:
        said.append(_of_giving_way(found.gave_way))
    if found.expected is not None:
        held = found.expected
        said.append(
            f"{held.count} starts were forecast, half of them at most {_length(held.lead_p50_s)} "
            f"ahead. {held.by_then_pct:.1f} % came by the forecast time (within {SLACK_S:g} s). "
            f"Half of all came at least {_length(held.early_p50_s)} early, and one in ten more "
            f"than {_length(held.late_p90_s)} late. {found.nobody_knew} had no forecast when they "
            "began to wait."
        )
    if sum(found.learnt):
        before, between, after = found.learnt
        said.append(
            f"Forecasts from past run times: {between} of {sum(found.learnt)} starts came between "
            f"the two forecast times, {before} before and {after} after."
        )
    if found.heads > 1:
        said.append(
            f"The head died {found.heads - 1} times, with {found.promises_met} promises in force."
        )
    said += [f"Refused: {text}" for text in found.refused]
    said.append(
        "\n".join(("Lost:", *found.lost))
        if found.lost
        else "No job, array task, record or promise was lost."
    )
    said.append(f"History {found.digest}.")
    return said


def _of_giving_way(found: GaveWay) -> str:
    job, often = found.most
    named = [f"{one.count} {one.kind} to {one.to} ({one.action})" for one in found.pairs[:_PAIRS]]
    return (
        f"{found.jobs} jobs and array tasks were preempted, {job} most often ({often} times); "
        f"{found.short} attempts had run for less than {SHORT_S:g} s. Most frequent: "
        f"{', '.join(named)}."
    )


def _length(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.0f}s"
    minutes = round(seconds / 60)
    return f"{minutes}m" if minutes < 60 else f"{minutes // 60}h{minutes % 60:02d}m"
