"""The logs of a node under the names of files that Ray gives them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

STREAMS = {"out": "stdout", "err": "stderr"}
"""What a worker prints, by the suffix of its file."""


class LogFile(NamedTuple):
    """A log, or what of a worker's log came by one stream."""

    name: str
    group: str
    """Under which listings have it: gcs_server, raylet, worker_out or worker_err."""
    node: str = ""
    """Its node's id; empty: the head."""
    worker: str = ""
    """Its worker's id; empty: a daemon."""
    stream: str = ""
    """Of a worker: stdout or stderr."""


def worker_file(worker: Mapping[str, Any], suffix: str) -> LogFile:
    """What a worker, a row of a listing, has printed by the stream of that suffix."""
    id, node = str(worker["worker_id"]), str(worker["node_id"])
    name = f"worker-{id}-{worker['job_id']}-{worker['pid']}.{suffix}"
    return LogFile(name, f"worker_{suffix}", node, id, STREAMS[suffix])


def files_of_node(
    node: Mapping[str, Any], workers: Iterable[Mapping[str, Any]]
) -> Iterator[LogFile]:
    """All logs of a node, a row of a listing, whose workers are among these rows."""
    if node["is_head_node"]:
        yield LogFile("gcs_server.out", "gcs_server")
    yield LogFile("raylet.out", "raylet", str(node["node_id"]))
    for worker in workers:
        if worker["node_id"] == node["node_id"] and worker["worker_type"] != "DRIVER":
            for suffix in STREAMS:
                yield worker_file(worker, suffix)


def grouped(files: Iterable[LogFile], pattern: str) -> dict[str, list[str]]:
    """The names that match a pattern (`worker*`), by their groups."""
    found: dict[str, list[str]] = {}
    for file in files:
        if fnmatchcase(file.name, pattern):
            found.setdefault(file.group, []).append(file.name)
    return found
