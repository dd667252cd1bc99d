"""Reads traces in any of the known formats. The header of a file shows its format."""

from __future__ import annotations

from pathlib import Path

from phalanx_research.traces import muri, openb, philly, plain
from phalanx_research.traces.fields import text_of
from phalanx_research.traces.records import TraceError, TraceJob, TraceNode


def read_nodes(path: Path) -> list[TraceNode]:
    """Return the nodes of an openb or plain file, which may be packed with gzip. Raises
    TraceError.
    """
    reader = openb.read_nodes if "sn" in _header(path) else plain.read_nodes
    nodes = reader(path)
    if not nodes:
        raise TraceError(str(path), 1, "the file has no nodes")
    return nodes


def read_jobs(path: Path) -> list[TraceJob]:
    """Return the jobs of an openb, Muri or plain CSV, or of a Philly log (.json).

    Raises TraceError.
    """
    header = _header(path)
    if path.name.removesuffix(".gz").endswith(".json") or (header and header[0].startswith("[")):
        reader = philly.read_jobs
    elif "job_id" in header:
        reader = muri.read_jobs
    elif "submit_s" in header or "duration_s" in header:
        reader = plain.read_jobs
    else:
        reader = openb.read_jobs
    jobs = reader(path)
    if not jobs:
        raise TraceError(str(path), 1, "the file has no jobs")
    return jobs


def _header(path: Path) -> list[str]:
    first = text_of(path).lstrip().partition("\n")[0]
    return [name.strip() for name in first.split(",")]
