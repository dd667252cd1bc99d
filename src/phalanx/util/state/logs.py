"""The logs of a cluster: their names and contents, with the functions of Ray's state API."""

from __future__ import annotations

import json
import re
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from phalanx.api.session import attached_engine
from phalanx.errors import StateQueryError
from phalanx.observe.log_lines import LogPiece, daemon_text, record_of
from phalanx.observe.state.query import MAX_LIMIT
from phalanx.protocol.requests.logs import ReadProcessLog
from phalanx.util.state.listing import TIMEOUT_S
from phalanx.util.state.log_files import STREAMS, LogFile, files_of_node, grouped, worker_file
from phalanx.util.state.log_reading import LogReading, time_of
from phalanx.util.state.rows import one_row, rows

_FOLLOW_S = 0.5
_LATE_S = 0.2
"""Seconds after a task's end within which a line may still belong to the task. Nodes give a line
the time at which they read it.
"""
_OF_CALLS = "RAY_ENABLE_RECORD_ACTOR_TASK_LOGGING"
"""Ray's environment variable that asks for each log line of an actor to be assigned to a call."""
_ANSI = re.compile(rb"\x1b\[[0-9;?]*[ -/]*[@-~]")

Row = Mapping[str, Any]
Keep = Callable[[bytes], bytes | None]
"""A function that returns the part of a line to show, or None for a line to leave out."""


def list_logs(
    address: str | None = None,
    node_id: str | None = None,
    node_ip: str | None = None,
    glob_filter: str | None = None,
    timeout: float = TIMEOUT_S,
) -> dict[str, list[str]]:
    """Return the names of those logs of a node that match `glob_filter`, by their groups.

    The groups are `gcs_server` (the head), `raylet` (the node itself), `worker_out` and
    `worker_err`. Raises ValueError when no node is named, StateQueryError when there is no such
    node, and ConnectionError when there is no cluster.

    Example:
        node = phalanx.get_runtime_context().get_node_id()
        names = list_logs(node_id=node, glob_filter="worker*")["worker_out"]
    """
    node = _node(address, node_id, node_ip, timeout)
    return grouped(_files(node, address, timeout), glob_filter or "*")


def get_log(
    address: str | None = None,
    node_id: str | None = None,
    node_ip: str | None = None,
    filename: str | None = None,
    actor_id: str | None = None,
    task_id: str | None = None,
    pid: int | None = None,
    follow: bool = False,
    tail: int = -1,
    timeout: float = TIMEOUT_S,
    suffix: str = "out",
    encoding: str | None = "utf-8",
    errors: str = "strict",
    submission_id: str | None = None,
    attempt_number: int = 0,
    _interval: float | None = None,
    filter_ansi_code: bool = False,
) -> Iterator[Any]:
    """Yield the contents of a log, in parts.

    The log is a file of a node, by a name that `list_logs` returns, or the output of an actor, of a
    task, or of the worker with the process id `pid` on a node. `suffix` chooses the stream of such
    output: "out" or "err". `tail` is a number of last lines, -1 for all. With `follow`, more parts
    come as the log grows; it is read again each `_interval` seconds. Parts are bytes when
    `encoding` is None. Raises StateQueryError for a log that does not exist, ValueError for
    arguments that are not allowed, and ConnectionError when there is no cluster.

    Example:
        for part in get_log(actor_id=actor_id, tail=100):
            print(part, end="")
    """
    if suffix not in STREAMS:
        raise ValueError(f"suffix must be 'out' or 'err', got {suffix!r}.")
    if tail < -1:
        raise ValueError(f"tail must be a number of lines, or -1 for all, got {tail}.")
    task: Row | None = None
    if submission_id is not None:
        raise StateQueryError(
            "The output of a submitted job is not among these logs: `ray job logs ID` prints it, "
            "and JobSubmissionClient.get_job_logs(ID) returns it."
        )
    if task_id is not None:
        task = _task(task_id, attempt_number, address, timeout)
        file = _of_worker(str(task["worker_id"]), suffix, address, timeout)
    elif actor_id is not None:
        file = _of_actor(actor_id, suffix, address, timeout)
    elif pid is not None:
        file = _of_pid(int(pid), _nodes(address, node_id, node_ip, timeout), suffix, address)
    elif filename is not None:
        file = _named(filename, _node(address, node_id, node_ip, timeout), address, timeout)
    else:
        raise StateQueryError(
            "None of actor_id, task_id, pid, filename or submission_id is provided! At least 1 of "
            "them is required to fetch logs."
        )
    log = LogReading(lambda request: _ask(address, request, timeout), file.node, file.worker)
    parts = _parts(log, _keeper(file, task), tail, _interval or _FOLLOW_S if follow else None)
    return _decoded(parts, encoding, errors, is_plain=filter_ansi_code is True)


# ---- which log is meant --------------------------------------------------------------------------


def _ask(address: str | None, request: ReadProcessLog, timeout: float) -> LogPiece:
    engine = attached_engine()
    if engine is not None and address in (None, "auto"):
        return engine.ask(request)
    from phalanx.runtime.daemons.finding import ask_cluster

    return ask_cluster(address, request, timeout)


def _nodes(
    address: str | None, node_id: str | None, node_ip: str | None, timeout: float
) -> list[Row]:
    """Return the nodes with this id or address. The head's node comes first."""
    if node_id is None and node_ip is None:
        raise ValueError("At least one of node ip and node id is required.")
    column, value = ("node_id", node_id) if node_id is not None else ("node_ip", node_ip)
    filters = [(column, "=", value)]
    found = rows("nodes", address, filters, MAX_LIMIT, timeout, True, True)
    if not found:
        raise StateQueryError(f"There is no node with {column} {value}: list_nodes() shows them.")
    return sorted(found, key=lambda row: (row["state"] == "DEAD", not row["is_head_node"]))


def _node(address: str | None, node_id: str | None, node_ip: str | None, timeout: float) -> Row:
    return _nodes(address, node_id, node_ip, timeout)[0]


def _files(node: Row, address: str | None, timeout: float) -> list[LogFile]:
    filters = [("node_id", "=", node["node_id"])]
    return list(
        files_of_node(node, rows("workers", address, filters, MAX_LIMIT, timeout, True, True))
    )


def _named(name: str, node: Row, address: str | None, timeout: float) -> LogFile:
    for file in _files(node, address, timeout):
        if file.name == name:
            return file
    raise StateQueryError(
        f"There is no log {name!r} on node {node['node_id']}: list_logs() shows its logs; "
        "other files are not read."
    )


def _of_worker(id: str, suffix: str, address: str | None, timeout: float) -> LogFile:
    for row in one_row("workers", id, address, timeout):
        return worker_file(row, suffix)
    raise StateQueryError(
        f"Worker {id} is not known any more: list_workers() shows the known ones."
    )


def _of_pid(pid: int, nodes: list[Row], suffix: str, address: str | None) -> LogFile:
    found = rows("workers", address, [("pid", "=", pid)], MAX_LIMIT, TIMEOUT_S, True, True)
    ids = {row["node_id"] for row in nodes}
    there = [row for row in found if row["node_id"] in ids and row["worker_type"] != "DRIVER"]
    if not there:
        raise StateQueryError(
            f"Worker with pid {pid} not found on node {' or '.join(sorted(ids))}."
        )
    return worker_file(there[0], suffix)


def _of_actor(id: str, suffix: str, address: str | None, timeout: float) -> LogFile:
    for row in one_row("actors", id, address, timeout):
        if not row.get("worker_id"):
            raise StateQueryError(
                f"Worker ID for Actor ID {id} not found. Actor is not scheduled yet: it is "
                f"{row['state']}."
            )
        return _of_worker(str(row["worker_id"]), suffix, address, timeout)
    raise StateQueryError(f"Actor ID {id} not found.")


def _task(id: str, attempt: int, address: str | None, timeout: float) -> Row:
    attempts = {row["attempt_number"]: row for row in one_row("tasks", id, address, timeout)}
    row = attempts.get(attempt)
    if row is None:
        raise StateQueryError(f"Could not find task: {id} (attempt {attempt}).")
    actor = row["actor_id"]
    if row["type"] != "NORMAL_TASK" and not _tells_calls(actor, address, timeout):
        raise StateQueryError(
            f"For actor task, please query actor log for actor({actor}): e.g. ray logs actor --id "
            f"{actor} . The log of a single call is available when the actor's runtime_env sets "
            "{_OF_CALLS}=1."
        )
    if not row["worker_id"] or row["start_time_ms"] is None:
        raise StateQueryError(
            f"Could not find a log of task: {id} (attempt {attempt}): it has not begun to run. It "
            f"is {row['state']}."
        )
    return row


def _tells_calls(actor: str, address: str | None, timeout: float) -> bool:
    """Whether the program asked, by the variable `_OF_CALLS`, that the lines of an actor's log are
    assigned to its calls. The assignment is right only if the calls run one by one.
    """
    for row in one_row("actors", actor, address, timeout):
        shown = row.get("serialized_runtime_env")
        variables = json.loads(shown).get("env_vars", {}) if shown else {}
        return str(variables.get(_OF_CALLS, "0")) == "1"
    return False


# ---- which lines are shown -----------------------------------------------------------------------


def _keeper(file: LogFile, task: Row | None) -> Keep:
    def of_daemon(line: bytes) -> bytes:
        record = record_of(line)
        return line if record is None else daemon_text(record).encode(errors="replace")

    def of_worker(line: bytes) -> bytes | None:
        record = record_of(line)
        if record is None:  # the interpreter's own line when it crashes
            return line if file.stream == "stderr" and task is None else None
        if record.stream != file.stream:
            return None
        if task is not None and not _is_of(task, record.name, time_of(record)):
            return None
        return record.text.encode(errors="replace")

    return of_worker if file.worker else of_daemon


def _is_of(task: Row, name: str, at: float) -> bool:
    began, ended = task["start_time_ms"] / 1e3, task["end_time_ms"]
    return name == task["name"] and began <= at and (not ended or at <= ended / 1e3 + _LATE_S)


def _parts(log: LogReading, keep: Keep, tail: int, follow_s: float | None) -> Iterator[list[bytes]]:
    if tail >= 0:
        last = deque[bytes](maxlen=tail)
        for part in log.parts():
            last.extend(_kept(part, keep))
        yield list(last)
    else:
        for part in log.parts():
            yield _kept(part, keep)
    while follow_s is not None:
        time.sleep(follow_s)
        for part in log.parts():
            yield _kept(part, keep)


def _kept(lines: list[bytes], keep: Keep) -> list[bytes]:
    return [shown for line in lines if (shown := keep(line)) is not None]


def _decoded(
    parts: Iterator[list[bytes]], encoding: str | None, errors: str, is_plain: bool
) -> Iterator[Any]:
    for part in parts:
        if part:
            data = b"".join(line + b"\n" for line in part)
            data = _ANSI.sub(b"", data) if is_plain else data
            yield data if encoding is None else data.decode(encoding, errors)
