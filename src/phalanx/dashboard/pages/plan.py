"""The data of the page Plan: expected starts, and the use of nodes over time."""

from __future__ import annotations

import math
from collections.abc import Container

import msgspec

from phalanx.dashboard.pages.device_map import DEVICE, name_of
from phalanx.dashboard.scales import clock_ticks
from phalanx.dashboard.watch import ClusterSnapshot
from phalanx.model.lifecycle import DEAD
from phalanx.model.readable import duration
from phalanx.model.rows.plan import Place, PlannedStart, TimePlan
from phalanx.observe.plan_range import ALL, RANGES_S, length_of, usual_range

NODES = 60
STARTS = 100
_SLOT_PX, _FEW_PX, _ALONE_PX = 7, 13, 16
"""The height in pixels of a slot, which is the part of a node's lane that stands for one device.
The three heights are for a drawing of many lanes, for a drawing of at most FEW lanes, and for a
lane of at most two slots.
"""
FEW = 8
_NAMED_PX = 12
"""The height of a name in pixels. A lower bar has no name on it."""
_LETTER = 0.65
"""The width of a letter of a name in hundredths of the axis, on a window of 1,600 pixels."""
_LETTER_ON_PHONES = 2.4
"""The width of a letter of a name in hundredths of the axis, on a phone."""
_CUT = 0.001


class Bar(msgspec.Struct, frozen=True, kw_only=True):
    """The bar of a podgroup that holds places of a node: its time in hundredths of the axis, and
    its position in its lane in pixels.
    """

    podgroup: str
    begin: float
    end: float
    has_end: bool
    """Whether the bar's end is known and on the axis."""
    kind: str
    """The kind of the bar: runs, promised, fills or estimated."""
    words: str
    top: int
    height: int
    is_named_beside: bool = False
    """Whether the name stands right of the bar, which is too short or too low for it."""

    @property
    def width(self) -> float:
        """The bar's width, in hundredths of the axis; at least wide enough to be seen."""
        return round(max(self.end - self.begin, 0.3), 2)

    @property
    def is_low(self) -> bool:
        """Whether the bar is too low for a name on it."""
        return self.height < _NAMED_PX

    @property
    def is_tight(self) -> bool:
        """Whether the name does not fit on the bar on a phone."""
        return _LETTER_ON_PHONES * (len(self.label) + 1) > self.width

    @property
    def text_middle(self) -> float:
        """The middle of the name, in pixels; never above the lane."""
        return max(self.top + self.height / 2, _NAMED_PX / 2)

    @property
    def label(self) -> str:
        """The name on the bar or beside it; empty if there is no room for it."""
        is_shown = self.is_named_beside or not self.is_low
        return self.podgroup.rpartition("/")[2] if is_shown else ""


class Track(msgspec.Struct, frozen=True, kw_only=True):
    """The bars of one node. A bar is as high as the part of the node that it holds."""

    node: str
    name: str
    height: int
    bars: list[Bar]


class Tick(msgspec.Struct, frozen=True, kw_only=True):
    """A labelled time on the axis: its position in hundredths of the axis. `at`: the time in
    seconds.
    """

    place: float
    at: float
    text: str


class PlanPage(msgspec.Struct, frozen=True, kw_only=True):
    """The page Plan: a plan and its drawing."""

    plan: TimePlan
    length_s: float
    range: str
    """The range of the time axis: one of RANGES_S, or ALL."""
    ticks: list[Tick]
    tracks: list[Track]
    tracks_in_all: int
    starts: list[PlannedStart]
    """The first expected starts, in the order of time."""
    idle: int
    """The number of nodes without a lane, because no gang holds or will hold a part of them."""


class _Span(msgspec.Struct, frozen=True):
    """A podgroup's places on a node over time."""

    podgroup: str
    begin: float
    end: float | None
    kind: str
    place: Place
    why: str


def plan_page(plan: TimePlan, snapshot: ClusterSnapshot, asked: str = "") -> PlanPage:
    """Return the page. `asked` is the range of its axis. The default is the shortest range that
    shows all expected starts, even if running work lasts longer.
    """
    rows = {row.node_id: row for row in snapshot.status.nodes}
    names = {node: name_of(row) for node, row in rows.items()}
    held = {one.place.node for one in plan.running}
    held |= {place.node for start in plan.starts for place in start.places}
    lanes = sorted(held, key=lambda node: (names.get(node, node[:12]), node))
    spans = _spans(plan, set(lanes[:NODES]))
    shown = asked if asked in (*RANGES_S, ALL) else usual_range(plan)
    length_s = length_of(plan, shown)
    slot_px = _FEW_PX if len(lanes) <= FEW else _SLOT_PX
    tracks = []
    for node in lanes[:NODES]:
        row = rows.get(node)
        devices = int(row.total.get(DEVICE, 0)) if row is not None else 0
        name = names.get(node, node[:12])
        tracks.append(_track(node, name, devices, spans[node], plan.now, length_s, slot_px))
    ticks = [
        Tick(place=round(100 * (at - plan.now) / length_s, 2), at=at, text=text)
        for at, text in clock_ticks(plan.now, plan.now + length_s)
    ]
    return PlanPage(
        plan=plan,
        length_s=length_s,
        range=shown,
        ticks=ticks,
        tracks=tracks,
        tracks_in_all=len(lanes),
        starts=sorted(plan.starts, key=lambda one: one.at_s)[:STARTS],
        idle=sum(row.state != DEAD and row.node_id not in held for row in rows.values()),
    )


def _spans(plan: TimePlan, nodes: Container[str]) -> dict[str, list[_Span]]:
    """Return the spans on these nodes, by node."""
    spans: dict[str, list[_Span]] = {}
    for one in plan.running:
        if one.place.node not in nodes:
            continue
        left = "" if one.ends_s is None else f", for {duration(one.ends_s - plan.now)} at most"
        span = _Span(one.podgroup, plan.now, one.ends_s, "runs", one.place, left)
        spans.setdefault(one.place.node, []).append(span)
    for start in plan.starts:
        for place in start.places:
            if place.node not in nodes:
                continue
            why = f" in {duration(start.at_s - plan.now)}"
            if start.after_tasks:
                count = start.after_tasks
                have = "1 task has" if count == 1 else f"{count} tasks have"
                why += f", once {have} ended"
            why += f" ({start.basis})" if str(start.basis) else ""
            span = _Span(start.podgroup, start.at_s, start.ends_s, how(start), place, why)
            spans.setdefault(place.node, []).append(span)
    return spans


WORDS = {"fills": "fills a hole", "promised": "promised", "estimated": "estimated"}
"""The words for each kind of a start."""


def how(start: PlannedStart) -> str:
    """Return the kind of a start: fills, promised or estimated."""
    if start.fills:
        return "fills"
    return "promised" if start.is_promised else "estimated"


def _track(
    node: str,
    name: str,
    devices: int,
    spans: list[_Span],
    now: float,
    length_s: float,
    slot_px: int,
) -> Track:
    """Stack the bars of a node so that none overlap. A lane has one slot for each device of the
    node.
    """
    free_at = [now] * devices
    """The time at which each slot of the lane becomes free."""
    places: list[tuple[_Span, int, int]] = []
    for span in sorted(spans, key=lambda one: (one.begin, one.podgroup)):
        if span.begin - now >= length_s:
            continue
        count = max(math.ceil(sum(span.place.devices.values())), 1)
        first = _first_free(free_at, count, span.begin)
        free_at[first : first + count] = [span.end if span.end is not None else math.inf] * count
        places.append((span, first, count))
    slot_px = _ALONE_PX if len(free_at) <= 2 else slot_px
    bars = []
    for span, first, count in places:
        end = length_s if span.end is None else max(span.end - now, 0.0)
        doing = "runs" if span.kind == "runs" else "starts"
        bars.append(
            Bar(
                podgroup=span.podgroup,
                begin=round(100 * max(span.begin - now, 0.0) / length_s, 2),
                end=round(100 * min(end / length_s, 1.0), 2),
                has_end=span.end is not None and end <= length_s * (1 + _CUT),
                kind=span.kind,
                words=f"{span.podgroup.removeprefix('default/')} on {name}: {span.place.words}, "
                f"{doing}{span.why}" + ("" if span.kind == "runs" else f", {WORDS[span.kind]}"),
                top=first * slot_px,
                height=count * slot_px - 1,
            )
        )
    bars = [_named(bar, bars) for bar in bars]
    return Track(node=node, name=name, height=max(len(free_at), 1) * slot_px, bars=bars)


def _named(bar: Bar, others: list[Bar]) -> Bar:
    """Return the bar. If the name does not fit on the bar, and no other bar is in the way, the name
    stands beside the bar.
    """
    room = _LETTER * (len(bar.podgroup.rpartition("/")[2]) + 2)
    end = max(bar.end, bar.begin + bar.width)
    if (room <= bar.width and not bar.is_low) or end + room > 100:
        return bar
    middle, half = bar.text_middle, max(bar.height, _NAMED_PX) / 2
    is_free = all(
        other.begin >= end + room
        or other.end <= end
        or other.top >= middle + half
        or other.top + other.height <= middle - half
        for other in others
        if other is not bar
    )
    return msgspec.structs.replace(bar, is_named_beside=is_free)


def _first_free(free_at: list[float], count: int, begin: float) -> int:
    """Return the number of the first of `count` neighbouring slots that are free at `begin`. If
    there are none, add slots.
    """
    for first in range(len(free_at) - count + 1):
        if all(at <= begin for at in free_at[first : first + count]):
            return first
    free_at += [begin] * count
    return len(free_at) - count
