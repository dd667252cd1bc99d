"""Read a trace, whichever of the known forms it has: the header tells."""

from __future__ import annotations

from pathlib import Path

from phalanx_research.traces import muri, openb, philly, plain
from phalanx_research.traces.fields import text_of
from phalanx_research.traces.records import TraceError, TraceJob, TraceNode


def read_nodes(path: Path) -> list[TraceNode]:
    """The nodes of an openb or plain file, perhaps with .gz. Raises TraceError."""
    reader = openb.read_nodes if "sn" in _header(path) else plain.read_nodes
    nodes = reader(path)
    if not nodes:
        raise TraceError(str(path), 1, "there are no nodes in it")
    return nodes


def read_jobs(path: Path) -> list[TraceJob]:
    """The jobs of an openb, Muri or plain CSV, or of a Philly log (.json). Raises TraceError."""
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
        raise TraceError(str(path), 1, "there are no jobs in it")
    return jobs


def _header(path: Path) -> list[str]:
    first = text_of(path).lstrip().partition("\n")[0]
    return [name.strip() for name in first.split(",")]
