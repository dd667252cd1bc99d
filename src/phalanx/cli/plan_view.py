"""Text of a plan in time: the use of each node over time, and the expected starts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from phalanx.cli.table import table
from phalanx.model.readable import duration
from phalanx.model.rows.plan import Place, PlannedStart, TimePlan

COLUMNS = 60
"""The width of the time axis in columns of the terminal."""
_LEGEND = (
    "Each character is the number of devices in use on the node at that time (of tasks, on a node "
    "where no work uses devices): '.' none, '+' more than nine."
)
_HEAD = ("GANG", "QUEUE", "START", "ENDS", "HOW", "PLACES", "BASIS")


def plan_text(plan: TimePlan, name: Callable[[str], str] = str) -> str:
    """Return a time axis for each node with running or promised work, and then a row for each gang.

    `name` returns the name under which a node is shown.
    """
    if not plan.starts and not plan.unknown and not plan.running:
        return "No gang runs, and no gang waits."
    lines = list(_axis(plan, name))
    if plan.starts:
        lines += ["", table(_HEAD, [_row(plan, one, name) for one in plan.starts])]
    if plan.unknown:
        several = len(plan.unknown) > 1
        who = f"{len(plan.unknown)} gangs wait" if several else "1 gang waits"
        lines += [
            "",
            f"{who} for work whose end is not known, or for more than the cluster has: "
            f"{', '.join(plan.unknown[:5])}{' ...' if len(plan.unknown) > 5 else ''}",
        ]
    return "\n".join(lines)


def _axis(plan: TimePlan, name: Callable[[str], str]) -> Iterator[str]:
    spans: dict[str, list[tuple[float, float, Place]]] = {}
    for node, span in _spans(plan):
        spans.setdefault(name(node), []).append(span)
    if not spans:
        return
    known = [t for all_of in spans.values() for span in all_of for t in span[:2] if t < _NEVER]
    length_s = max(max(known, default=plan.now) - plan.now, 1.0)
    width = max(len(node) for node in spans)
    with_devices = {
        node for node, all_of in spans.items() if any(place.devices for *_, place in all_of)
    }
    marks = f"now{f'in {duration(length_s)}'.rjust(COLUMNS - 3)}"
    yield f"{'NODE'.ljust(width)}  {marks}"
    for node, all_of in sorted(spans.items()):
        cells = []
        for column in range(COLUMNS):
            at = plan.now + (column + 0.5) * length_s / COLUMNS
            here = [place for begin, end, place in all_of if begin <= at < end]
            held = (
                sum(sum(place.devices.values()) for place in here)
                if node in with_devices
                else float(sum(place.tasks for place in here))
            )
            cells.append(_digit(held))
        yield f"{node.ljust(width)}  {''.join(cells)}"
    yield _LEGEND


_NEVER = float("inf")


def _spans(plan: TimePlan) -> Iterator[tuple[str, tuple[float, float, Place]]]:
    for one in plan.running:
        ends_s = _NEVER if one.ends_s is None else one.ends_s
        yield one.place.node, (plan.now, ends_s, one.place)
    for start in plan.starts:
        ends_s = _NEVER if start.ends_s is None else start.ends_s
        for place in start.places:
            yield place.node, (start.at_s, ends_s, place)


def _digit(held: float) -> str:
    if held <= 0:
        return "."
    return "+" if held > 9 else str(max(1, round(held)))


def _row(plan: TimePlan, one: PlannedStart, name: Callable[[str], str]) -> list[str]:
    start = "now" if one.at_s <= plan.now else f"in {duration(one.at_s - plan.now)}"
    if one.earliest_s is not None:
        start = (
            f"in {duration(max(one.earliest_s - plan.now, 0.0))} to {duration(one.at_s - plan.now)}"
        )
    return [
        one.podgroup,
        one.queue,
        start,
        "?" if one.ends_s is None else f"in {duration(one.ends_s - plan.now)}",
        _how(one),
        _places(one.places, name),
        str(one.basis),
    ]


def _how(one: PlannedStart) -> str:
    if one.fills:
        return "fills"
    if one.is_promised:
        return "promised"
    return "estimated" if one.places else "after those"


def _places(places: Iterable[Place], name: Callable[[str], str]) -> str:
    shown = []
    for place in places:
        devices = " ".join(
            f"{kind.rpartition('/')[2]}:{count:g}" for kind, count in place.devices.items()
        )
        node = name(place.node)
        shown.append(f"{node} {devices}" if devices else f"{node} x{place.tasks}")
    more = f" and {len(shown) - 3} more" if len(shown) > 3 else ""
    return ", ".join(shown[:3]) + more
