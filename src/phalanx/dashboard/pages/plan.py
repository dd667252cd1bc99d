"""Data of the page Plan: expected starts, and the use of nodes over time."""

from __future__ import annotations

import msgspec

from phalanx.dashboard.watch import SessionView
from phalanx.model.rows.plan import Place, PlannedStart, TimePlan

NODES = 60
STARTS = 100
_LEAST_S = 60.0


class Bar(msgspec.Struct, frozen=True, kw_only=True):
    """The time in which a podgroup holds places of a node, in hundredths of the axis."""

    podgroup: str
    begin: float
    end: float
    has_end: bool
    kind: str
    """One of runs, promised, fills and estimated."""
    words: str


class Track(msgspec.Struct, frozen=True, kw_only=True):
    """A node's bars, in lanes in which no bars overlap."""

    node: str
    name: str
    lanes: list[list[Bar]]


class PlanPage(msgspec.Struct, frozen=True, kw_only=True):
    """The page: a plan and its drawing."""

    plan: TimePlan
    length_s: float
    tracks: list[Track]
    tracks_in_all: int
    starts: list[PlannedStart]


def plan_page(plan: TimePlan, picture: SessionView) -> PlanPage:
    """Return the page. Its axis reaches from now to the last known end."""
    names = {row.node_id: row.hostname or row.host for row in picture.status.nodes}
    spans: dict[str, list[tuple[str, float, float | None, str, Place]]] = {}
    for one in plan.running:
        span = (one.podgroup, plan.now, one.ends_s, "runs", one.place)
        spans.setdefault(one.place.node, []).append(span)
    for start in plan.starts:
        for place in start.places:
            span = (start.podgroup, start.at_s, start.ends_s, how(start), place)
            spans.setdefault(place.node, []).append(span)
    moments = [
        moment
        for of_node in spans.values()
        for _, begin, end, _, _ in of_node
        for moment in (begin, end)
        if moment is not None
    ]
    length_s = max(max(moments, default=plan.now) - plan.now, _LEAST_S)
    tracks = [
        Track(
            node=node,
            name=names.get(node, node[:12]),
            lanes=_lanes([_bar(plan.now, length_s, span) for span in of_node]),
        )
        for node, of_node in sorted(spans.items(), key=lambda one: names.get(one[0], one[0]))
    ]
    return PlanPage(
        plan=plan,
        length_s=length_s,
        tracks=tracks[:NODES],
        tracks_in_all=len(tracks),
        starts=list(plan.starts[:STARTS]),
    )


def how(start: PlannedStart) -> str:
    """Return the terms of a start: fills, promised or estimated."""
    if start.fills:
        return "fills"
    return "promised" if start.is_promised else "estimated"


def place_text(place: Place) -> str:
    """Return what a place holds of a node, as text."""
    devices = " ".join(
        f"{count:g} {name.rpartition('/')[2]}" for name, count in place.devices.items()
    )
    return devices or f"{place.tasks} task{'' if place.tasks == 1 else 's'}"


def _bar(now: float, length_s: float, span: tuple[str, float, float | None, str, Place]) -> Bar:
    podgroup, begin, end, kind, place = span
    return Bar(
        podgroup=podgroup,
        begin=round(100 * max(begin - now, 0.0) / length_s, 2),
        end=100.0 if end is None else round(100 * max(end - now, 0.0) / length_s, 2),
        has_end=end is not None,
        kind=kind,
        words=f"{podgroup}: {place_text(place)}, {kind}",
    )


def _lanes(bars: list[Bar]) -> list[list[Bar]]:
    lanes: list[list[Bar]] = []
    for bar in sorted(bars, key=lambda bar: (bar.begin, bar.podgroup)):
        free = next((lane for lane in lanes if lane[-1].end <= bar.begin), None)
        if free is None:
            lanes.append([bar])
        else:
            free.append(bar)
    return lanes
