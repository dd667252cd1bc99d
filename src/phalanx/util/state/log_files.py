"""The logs of a node, under Ray's file names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

STREAMS = {"out": "stdout", "err": "stderr"}
"""The streams of a worker's output, by the suffix of the file's name."""


class LogFile(NamedTuple):
    """A log, or the lines of a worker's log from one stream."""

    name: str
    group: str
    """The group in listings: gcs_server, raylet, worker_out or worker_err."""
    node: str = ""
    """The id of the log's node; "" for the head."""
    worker: str = ""
    """The id of the log's worker; "" for a daemon."""
    stream: str = ""
    """A worker's stream: stdout or stderr."""


def worker_file(worker: Mapping[str, Any], suffix: str) -> LogFile:
    """Return the log of a worker (a row of a listing) for the stream with this suffix."""
    id, node = str(worker["worker_id"]), str(worker["node_id"])
    name = f"worker-{id}-{worker['job_id']}-{worker['pid']}.{suffix}"
    return LogFile(name, f"worker_{suffix}", node, id, STREAMS[suffix])


def files_of_node(
    node: Mapping[str, Any], workers: Iterable[Mapping[str, Any]]
) -> Iterator[LogFile]:
    """Yield all logs of a node (a row of a listing), and those of its workers among the given
    rows.
    """
    if node["is_head_node"]:
        yield LogFile("gcs_server.out", "gcs_server")
    yield LogFile("raylet.out", "raylet", str(node["node_id"]))
    for worker in workers:
        if worker["node_id"] == node["node_id"] and worker["worker_type"] != "DRIVER":
            for suffix in STREAMS:
                yield worker_file(worker, suffix)


def grouped(files: Iterable[LogFile], pattern: str) -> dict[str, list[str]]:
    """Return the names that match a pattern (such as `worker*`), by their groups."""
    found: dict[str, list[str]] = {}
    for file in files:
        if fnmatchcase(file.name, pattern):
            found.setdefault(file.group, []).append(file.name)
    return found
