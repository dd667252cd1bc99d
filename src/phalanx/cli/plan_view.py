"""Text of a plan in time: the use of each node over time, and the expected starts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from textwrap import fill

from phalanx.cli.layout import Column
from phalanx.cli.listing import listing
from phalanx.cli.table import terminal_width
from phalanx.model.readable import duration
from phalanx.model.rows.plan import Place, PlannedStart, TimePlan
from phalanx.observe.plan_range import length_of, usual_range

COLUMNS = 60
"""The width of the time axis, in characters, if the output is not a terminal."""
_LEAST, _MOST = 20, 160
"""The smallest and the largest width of the time axis on a terminal, in characters."""
_LEGEND = (
    "Each character is the number of devices in use on the node at that time (of tasks, on a node "
    "where no work uses devices): '.' none, '+' more than nine."
)


def plan_text(plan: TimePlan, name: Callable[[str], str] = str) -> str:
    """Return a time axis for each node with running or promised work, and then a row for each gang.
    `name` returns the display name of a node.
    """
    if not plan.starts and not plan.unknown and not plan.running:
        return "No gang runs, and no gang waits."
    lines = list(_axis(plan, name))
    if plan.starts:
        lines += ["", listing(_columns(plan, name), sorted(plan.starts, key=_begin))]
    if plan.unknown:
        several = len(plan.unknown) > 1
        who = f"{len(plan.unknown)} gangs wait" if several else "1 gang waits"
        names = (
            f"{', '.join(map(_name, plan.unknown[:5]))}{' ...' if len(plan.unknown) > 5 else ''}"
        )
        why = "for work whose end is not known, or for more than the cluster has:"
        lines += ["", _within(f"{who} {why} {names}")]
    return "\n".join(lines)


def _axis(plan: TimePlan, name: Callable[[str], str]) -> Iterator[str]:
    spans: dict[str, list[tuple[float, float, Place]]] = {}
    for node, span in _spans(plan):
        spans.setdefault(name(node), []).append(span)
    if not spans:
        return
    length_s = length_of(plan, usual_range(plan))
    width = max(len(node) for node in (*spans, "NODE"))
    room = terminal_width()
    count = COLUMNS if room is None else min(max(room - width - 2, _LEAST), _MOST)
    with_devices = {
        node for node, all_of in spans.items() if any(place.devices for *_, place in all_of)
    }
    marks = f"now{f'in {duration(length_s)}'.rjust(count - 3)}"
    yield f"{'NODE'.ljust(width)}  {marks}"
    for node, all_of in sorted(spans.items()):
        cells = []
        for column in range(count):
            at = plan.now + (column + 0.5) * length_s / count
            here = [place for begin, end, place in all_of if begin <= at < end]
            held = (
                sum(sum(place.devices.values()) for place in here)
                if node in with_devices
                else float(sum(place.tasks for place in here))
            )
            cells.append(_digit(held))
        yield f"{node.ljust(width)}  {''.join(cells)}"
    yield _within(_LEGEND)


def _within(text: str) -> str:
    """Break a text into lines that fit into the terminal."""
    width = terminal_width()
    return text if width is None else fill(text, max(width, _LEAST), break_long_words=False)


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


def _name(podgroup: str) -> str:
    return podgroup.removeprefix("default/")


def _begin(one: PlannedStart) -> float:
    return one.at_s


def _columns(plan: TimePlan, name: Callable[[str], str]) -> list[Column]:
    return [
        Column("gang", lambda one: _name(one.podgroup)),
        Column("queue", lambda one: one.queue, rank=4),
        Column("start", lambda one: _start(plan, one)),
        Column(
            "ends",
            lambda one: "?" if one.ends_s is None else f"in {duration(one.ends_s - plan.now)}",
            rank=3,
        ),
        Column("how", _how, rank=2),
        Column("places", lambda one: _places(one.places, name), rank=1, is_text=True),
        Column("basis", lambda one: str(one.basis), rank=5, is_text=True),
    ]


def _start(plan: TimePlan, one: PlannedStart) -> str:
    if one.earliest_s is None:
        return "now" if one.at_s <= plan.now else f"in {duration(one.at_s - plan.now)}"
    least_s = max(one.earliest_s - plan.now, 0.0)
    return f"in {duration(least_s)} to {duration(one.at_s - plan.now)}"


def _how(one: PlannedStart) -> str:
    if one.fills:
        return "fills"
    if one.is_promised:
        return "promised"
    return "estimated" if one.places else "after those"


def _places(places: Iterable[Place], name: Callable[[str], str]) -> str:
    shown = [f"{name(place.node)} {place.words}" for place in places]
    more = f" and {len(shown) - 3} more" if len(shown) > 3 else ""
    return ", ".join(shown[:3]) + more
