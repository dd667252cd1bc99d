"""Prints the logs of daemons, workers and actors as they grow."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from phalanx.cli.reach import NOT_FOUND, USAGE, ask, fail
from phalanx.cli.state import query_state
from phalanx.cli.table import safe
from phalanx.model.nearest import nearest
from phalanx.observe.log_lines import LogPiece, daemon_text, record_of
from phalanx.observe.state.columns import Row
from phalanx.observe.state.query import MAX_LIMIT, StateQuery, Value
from phalanx.protocol.requests.cluster import GetStatus
from phalanx.protocol.requests.logs import ReadProcessLog
from phalanx.util.state.log_reading import LogReading, time_of

_FOLLOW_S = 0.25
MAX_TAIL = 100_000
"""The largest number of last lines that a user may ask for."""
_PID_DIGITS = 7


@dataclass(frozen=True)
class Source:
    """The process whose log is printed."""

    node: str
    """The id of the node; empty for the head."""
    worker: str = ""
    """The id of the worker; empty for the node's own process."""


def node_source(address: str | None, name: str) -> Source:
    """Return the node that has this name or host name, or whose id begins with this text. Of dead
    nodes with the name, the one that ended last is meant. Ends the command unless exactly one node
    is meant.
    """
    nodes = ask(address, GetStatus(), with_programs=True).nodes
    rows = [row.as_dict() for row in nodes]
    found = [row for row in rows if name in (row["name"], row["hostname"], row["host"])]
    alive = [row for row in found if row["state"] != "DEAD"]
    found = (
        alive
        or sorted(found, key=lambda row: row["ended"])[-1:]
        or [row for row in rows if row["node_id"].startswith(name)]
    )
    if not found:
        near = nearest(name, {row["name"] or row["hostname"] for row in rows})
        fail(f"node {name!r} does not exist{near}: `phalanx nodes` lists all nodes.", NOT_FOUND)
    return Source(_only(found, "node", name)["node_id"])


def worker_source(address: str | None, name: str) -> Source:
    """Return the only worker that has this process id, or whose id begins with this text."""
    if name.isdecimal() and len(name) <= _PID_DIGITS:
        rows = _rows(address, "workers", [("pid", "=", int(name))])
        rows = [row for row in rows if row["is_alive"]] or rows
        if rows:
            return _of_worker(_only(rows, "worker", name))
    rows = _rows(address, "workers", [])
    found = [row for row in rows if str(row["worker_id"]).startswith(name)]
    return _of_worker(_only(found, "worker", name))


def actor_source(address: str | None, name: str) -> Source:
    """Return the worker of the only actor that has this name, or whose id begins with this text."""
    rows = _rows(address, "actors", [])
    named = [row for row in rows if row["name"] == name]
    found = [row for row in named if row["state"] != "DEAD"] or named[-1:]
    found = found or [row for row in rows if str(row["actor_id"]).startswith(name)]
    row = _only(found, "actor", name)
    if not row["worker_id"]:
        fail(f"actor {name} has no worker yet: it is {row['state']}.", NOT_FOUND)
    return _of_worker(row)


def _of_worker(row: Row) -> Source:
    if row.get("worker_type") == "DRIVER":
        fail(
            "That is a driver, whose output goes to the terminal where it was started. For a "
            "driver that was submitted as a job, use `phalanx logs JOB`.",
            NOT_FOUND,
        )
    return Source(str(row["node_id"]), str(row["worker_id"]))


def _rows(address: str | None, kind: str, filters: list[tuple[str, str, Value]]) -> list[Row]:
    return query_state(address, StateQuery(kind, filters, MAX_LIMIT, True)).part.rows


def _only(found: list[Row], kind: str, name: str) -> Row:
    if not found:
        fail(
            f"{kind} {name!r} does not exist: `phalanx list {kind}s` lists all {kind}s.", NOT_FOUND
        )
    if len(found) > 1:
        ids = ", ".join(str(row[f"{kind}_id"]) for row in found[:5])
        fail(f"{name!r} matches {len(found)} {kind}s: {ids}. Name one by its id.", USAGE)
    return found[0]


def show(
    address: str | None,
    source: Source,
    *,
    follow: bool,
    tail: int | None,
    since: float,
    timestamps: bool,
    as_json: bool,
) -> None:
    """Print a log: the last `tail` of the lines written since `since` (seconds since the epoch)."""
    reading = _Reading(address, source, since)
    kept: deque[bytes] = deque(maxlen=tail)
    if tail is not None:
        kept.extend(reading.lines())
    for line in kept if tail is not None else reading.lines():
        _print(line, timestamps, as_json)
    sys.stdout.flush()
    while follow:
        time.sleep(_FOLLOW_S)
        for line in reading.lines():
            _print(line, timestamps, as_json)
        sys.stdout.flush()


class _Reading:
    """Reads a log piece by piece, and remembers the position."""

    def __init__(self, address: str | None, source: Source, since: float) -> None:
        def answer(request: ReadProcessLog) -> LogPiece:
            return ask(address, request, with_programs=True)

        self._log = LogReading(answer, source.node, source.worker)
        self._since = since
        self._at = 0.0
        """The time of the last line with a time. A line without a time counts as written at that
        time.
        """

    def lines(self) -> Iterator[bytes]:
        for part in self._log.parts():
            for line in part:
                record = record_of(line)
                self._at = self._at if record is None else time_of(record)
                if self._at >= self._since:
                    yield line


def _print(line: bytes, timestamps: bool, as_json: bool) -> None:
    record = record_of(line)
    if as_json:
        sys.stdout.buffer.write(
            line + b"\n"
            if record is not None
            else msgspec.json.encode({"text": line.decode(errors="replace")}) + b"\n"
        )
        return
    if record is None:
        text = line.decode(errors="replace")
    elif record.stream:
        text = f"{record.time} {record.text}" if timestamps else record.text
    else:
        text = daemon_text(record)
    lines = [safe(one) for one in text.split("\n")] if record is None or record.level else [text]
    sys.stdout.buffer.write("\n".join(lines).encode(errors="replace") + b"\n")
