"""The stream of tasks over time: a lane for each worker, with a bar for each attempt of a task."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from phalanx.dashboard.pages.styles import COLOURS
from phalanx.dashboard.scales import clock_ticks
from phalanx.model.lifecycle import FAILED, FINISHED, RUNNING
from phalanx.model.readable import duration
from phalanx.observe.state.columns import Row
from phalanx.observe.state.query import StateQuery

STREAM = StateQuery("tasks", [], 2_000, True, timeout_s=3.0, is_latest=True)
RANGES_S = {"10s": 10.0, "1m": 60.0, "10m": 600.0, "1h": 3_600.0, "1d": 86_400.0}
LANES = 40
OTHERS = "others"
"""The name of the functions that share the last colour."""
_PREFIX_DIGITS = 12
"""The number of hex digits of a node's id in rows of tasks. A process knows only these digits of
its node's id.
"""
_SHOWN_PART = 0.5
"""If the viewer gives no range, the axis shows at least this fraction of the attempts."""
_LEAST = 0.25
"""The smallest width of a bar in hundredths of the axis. Narrower neighbouring bars are joined."""


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """A bar: one attempt of a task, or neighbouring short attempts of one function. Its position is
    in hundredths of the axis.
    """

    begin: float
    width: float
    look: int
    """The number of the function's colour."""
    state: str
    """FINISHED, FAILED or RUNNING."""
    words: str
    task: str
    """The id of the task; for several attempts, the task of the last attempt."""


class Lane(msgspec.Struct, frozen=True, kw_only=True):
    """A worker and its attempts, oldest first."""

    worker: str
    node: str
    """The node's id; empty if it is not known."""
    name: str
    """The name of the node, the worker's process and, for the worker of an actor, the class."""
    busy: float
    """The busy part of the axis, in hundredths."""
    pieces: list[Piece]


class Function(msgspec.Struct, frozen=True, kw_only=True):
    """A function in the legend: the number of its attempts on the axis, and their total seconds."""

    name: str
    look: int
    attempts: int
    seconds: float


class Stream(msgspec.Struct, frozen=True, kw_only=True):
    """The stream of the attempts before `at`, which is in seconds since the epoch."""

    at: float
    range: str
    length_s: float
    lanes: list[Lane]
    lanes_in_all: int
    functions: list[Function]
    ticks: list[tuple[float, float, str]]
    """The labelled times on the axis: the position in hundredths of the axis, the seconds since the
    epoch, and the text of each.
    """
    drawn: int
    """The number of attempts on the axis."""
    is_cut: bool
    """Whether older attempts are missing because there are too many."""


class _Attempt(msgspec.Struct, frozen=True):
    worker: str
    node: str
    pid: str
    function: str
    state: str
    begin: float
    end: float
    task: str
    error: str
    actor_class: str
    """The class of the actor whose method was called; empty for a task."""


class _Worker(msgspec.Struct, frozen=True):
    """A worker: the id of its node, the name of its lane, and its attempts."""

    node: str
    name: str
    attempts: list[_Attempt]


def stream(
    rows: Sequence[Row], total: int, names: Mapping[str, str], now: float, asked: str = ""
) -> Stream:
    """Return the stream of these rows of tasks, which are some of `total` rows. `names` are the
    names of nodes by id, and `asked` is the range of the axis.
    """
    attempts = list(_attempts(rows, now))
    known = {node[:_PREFIX_DIGITS]: (node, name) for node, name in names.items()}
    known |= {node: (node, name) for node, name in names.items()}
    shown = asked if asked in RANGES_S else _usual(attempts, now)
    length_s = RANGES_S[shown]
    first = now - length_s
    seen = [one for one in attempts if one.end > first]
    functions = _functions(seen, first)
    looks = {one.name: one.look for one in functions}
    by_worker: dict[str, list[_Attempt]] = defaultdict(list)
    for one in seen:
        by_worker[one.worker].append(one)
    workers = [_Worker(*_named(max(mine, key=_when), known), mine) for mine in by_worker.values()]
    workers.sort(key=lambda one: (one.name, one.attempts[-1].worker))
    oldest = min((one.end for one in attempts if one.state != RUNNING), default=now)
    return Stream(
        at=now,
        range=shown,
        length_s=length_s,
        lanes=[_lane(one, looks, first, length_s) for one in workers[:LANES]],
        lanes_in_all=len(workers),
        functions=functions,
        ticks=_ticks(first, now, length_s),
        drawn=len(seen),
        is_cut=len(rows) < total and oldest > first,
    )


def _attempts(rows: Sequence[Row], now: float) -> Iterator[_Attempt]:
    """Yield the attempts that ran. The start of a running attempt is estimated as the end of the
    worker's last attempt, or as the task's submission if that is later.
    """
    last: dict[str, float] = {}
    running = []
    for row in rows:
        worker, began, ended = (
            str(row.get("worker_id") or ""),
            row.get("start_time_ms"),
            row.get("end_time_ms"),
        )
        if not worker:
            continue
        if row.get("state") == RUNNING:
            running.append((worker, row))
        elif isinstance(began, int) and isinstance(ended, int):
            last[worker] = max(last.get(worker, 0.0), ended / 1000)
            yield _attempt(worker, row, began / 1000, ended / 1000)
    for worker, row in running:
        created = row.get("creation_time_ms")
        begin = max(created / 1000 if isinstance(created, int) else 0.0, last.get(worker, 0.0))
        if begin:
            yield _attempt(worker, row, min(begin, now), now)


def _attempt(worker: str, row: Row, begin: float, end: float) -> _Attempt:
    pid = row.get("worker_pid")
    return _Attempt(
        worker=worker,
        node=str(row.get("node_id") or ""),
        pid=f"pid {pid}" if pid else f"worker {worker[_PREFIX_DIGITS : _PREFIX_DIGITS + 6]}",
        function=function_of(row),
        state=str(row.get("state")),
        begin=begin,
        end=end,
        task=str(row.get("task_id")),
        error=str(row.get("error_message") or row.get("error_type") or ""),
        actor_class=_class_of(row),
    )


def _class_of(row: Row) -> str:
    """Return the class of the actor whose method a row's task calls; empty for other tasks."""
    if not row.get("actor_id"):
        return ""
    return str(row.get("func_or_class_name") or "").rpartition(".")[0]


def function_of(row: Mapping[str, Any]) -> str:
    """Return the name of a task's function, or of the called method."""
    return str(row.get("name") or row.get("func_or_class_name") or "?")


def _usual(attempts: list[_Attempt], now: float) -> str:
    """Return the shortest range that shows at least the fraction `_SHOWN_PART` of the attempts."""
    ages = sorted(now - one.end for one in attempts)
    if not ages:
        return "1m"
    wanted = ages[min(int(len(ages) * _SHOWN_PART), len(ages) - 1)]
    return next((name for name, length_s in RANGES_S.items() if wanted < length_s), "1d")


def _functions(seen: list[_Attempt], first: float) -> list[Function]:
    """Return the functions with the most seconds in total, each with its colour. All other
    functions share the last colour.
    """
    spent: dict[str, float] = defaultdict(float)
    counts: dict[str, int] = defaultdict(int)
    for one in seen:
        spent[one.function] += one.end - max(one.begin, first)
        counts[one.function] += 1
    ordered = sorted(spent, key=lambda name: (-spent[name], name))
    own, rest = ordered, []
    if len(ordered) > COLOURS:
        own, rest = ordered[: COLOURS - 1], ordered[COLOURS - 1 :]
    found = [
        Function(name=name, look=look, attempts=counts[name], seconds=spent[name])
        for look, name in enumerate(own)
    ]
    if rest:
        attempts, seconds = sum(counts[name] for name in rest), sum(spent[name] for name in rest)
        found.append(Function(name=OTHERS, look=COLOURS - 1, attempts=attempts, seconds=seconds))
    return found


def _when(one: _Attempt) -> tuple[float, float]:
    return one.begin, one.end


def _named(last: _Attempt, known: Mapping[str, tuple[str, str]]) -> tuple[str, str]:
    """Return the id of a worker's node, and the name of the worker's lane."""
    short = last.node[:_PREFIX_DIGITS]
    node, name = known.get(last.node) or known.get(short) or ("", short)
    return node, " ".join(part for part in (name, last.pid, last.actor_class) if part)


def _lane(worker: _Worker, looks: Mapping[str, int], first: float, length_s: float) -> Lane:
    mine = sorted(worker.attempts, key=_when)
    groups: list[list[_Attempt]] = []
    for one in mine:
        if groups and _is_one_bar(groups[-1], one, length_s):
            groups[-1].append(one)
        else:
            groups.append([one])
    pieces = [_piece(group, looks, first, length_s) for group in groups]
    return Lane(
        worker=mine[-1].worker,
        node=worker.node,
        name=worker.name,
        busy=round(_covered(mine, first) / length_s * 100, 1),
        pieces=pieces,
    )


def _covered(mine: list[_Attempt], first: float) -> float:
    """Return the number of seconds in which at least one attempt runs. `mine`: the attempts, sorted
    by their starts.
    """
    covered, until = 0.0, first
    for one in mine:
        covered += max(one.end - max(one.begin, until), 0.0)
        until = max(until, one.end)
    return covered


def _is_one_bar(group: list[_Attempt], one: _Attempt, length_s: float) -> bool:
    last, least_s = group[-1], _LEAST / 100 * length_s
    is_alike = (last.function, last.state) == (one.function, one.state)
    is_near = one.begin - last.end < least_s / 2 and one.end - one.begin < least_s
    return is_alike and is_near and last.end - last.begin < least_s


def _piece(group: list[_Attempt], looks: Mapping[str, int], first: float, length_s: float) -> Piece:
    one, last = group[0], group[-1]
    begin, end = max(one.begin, first), max(other.end for other in group)
    length = sum(other.end - other.begin for other in group)
    if len(group) > 1:
        words = f"{len(group)} × {one.function}, {brief(length)} in all, {_how(one)}"
    else:
        words = f"{one.function} for {brief(length)}, {_how(one)}"
    return Piece(
        begin=round(100 * (begin - first) / length_s, 2),
        width=round(max(100 * (end - begin) / length_s, _LEAST), 2),
        look=looks.get(one.function, COLOURS - 1),
        state=one.state,
        words=words,
        task=last.task,
    )


def _how(one: _Attempt) -> str:
    if one.state == FAILED:
        return f"failed: {one.error}" if one.error else "failed"
    return "finished" if one.state == FINISHED else "runs"


def brief(seconds: float) -> str:
    """Return a duration as text, with parts of a second. Rows of tasks have milliseconds."""
    if seconds < 0.001:
        return "<1 ms"
    if seconds < 1:
        return f"{1000 * seconds:.{0 if seconds >= 0.01 else 1}f} ms"
    return f"{seconds:.1f}s" if seconds < 10 else duration(seconds)


def _ticks(first: float, now: float, length_s: float) -> list[tuple[float, float, str]]:
    if length_s <= RANGES_S["1m"]:  # clock times have no seconds
        return [
            (round(100 * part, 2), now - (1 - part) * length_s, f"{(1 - part) * length_s:g}s ago")
            for part in (0.0, 0.25, 0.5, 0.75)
        ]
    return [
        (round(100 * (at - first) / length_s, 2), at, text) for at, text in clock_ticks(first, now)
    ]
