"""Reads the plain CSV of a user's own cluster. docs/howto/simulator.md describes its columns."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from phalanx.scheduler.cycle.move_terms import MOVABLE, terms_fault
from phalanx_research.traces.fields import Row, rows_of, unique
from phalanx_research.traces.records import TraceJob, TraceNode

NODE_COLUMNS = ("name", "cpu_milli", "memory_mib")
NODE_MORE = ("gpus", "model")
JOB_COLUMNS = ("name", "submit_s", "duration_s")
JOB_MORE = (
    "cpu_milli", "memory_mib", "gpus", "gpu_milli", "models", "members", "queue", "priority",
    "workload", "movable",
)  # fmt: skip


def read_nodes(path: Path) -> list[TraceNode]:
    """Return nodes in the order of the file. Raises TraceError."""
    return nodes_of(rows_of(path, NODE_COLUMNS, NODE_MORE))


def read_jobs(path: Path) -> list[TraceJob]:
    """Return jobs in the order of the file. Raises TraceError."""
    return jobs_of(rows_of(path, JOB_COLUMNS, JOB_MORE))


def nodes_of(rows: Iterable[Row]) -> list[TraceNode]:
    """Return nodes from rows with the columns of a plain node file."""
    nodes = []
    for row in unique(iter(rows), "name"):
        gpus = row.count("gpus", 0)
        model = row.text("model", "")
        if gpus and not model:
            raise row.error(f"gpus is {gpus}, but model is empty: a device count without a device")
        nodes.append(
            TraceNode(
                name=row.text("name"),
                cpu_milli=row.count("cpu_milli"),
                memory_mib=row.count("memory_mib"),
                gpus=gpus,
                model=model,
            )
        )
    return nodes


def jobs_of(rows: Iterable[Row]) -> list[TraceJob]:
    """Return jobs from rows with the columns of a plain job file."""
    jobs = []
    last_s = 0.0
    for row in unique(iter(rows), "name"):
        gpus, milli = row.gpus("gpus", "gpu_milli")
        submitted_s = row.number("submit_s")
        if submitted_s < last_s:
            raise row.error(
                f"submit_s ({submitted_s:g}) is before the line above ({last_s:g}): "
                "time runs backwards"
            )
        last_s = submitted_s
        members = row.count("members", 1)
        if members < 1:
            raise row.error("members is 0; a job has 1 or more")
        jobs.append(
            TraceJob(
                name=row.text("name"),
                cpu_milli=row.count("cpu_milli", 1000),
                memory_mib=row.count("memory_mib", 0),
                num_gpu=gpus,
                gpu_milli=milli,
                models=row.names("models"),
                members=members,
                submitted_s=submitted_s,
                duration_s=row.number("duration_s"),
                queue=row.text("queue", "default"),
                priority=row.count("priority", 0),
                workload=row.text("workload", ""),
                movable=_movable(row),
            )
        )
    return jobs


def _movable(row: Row) -> str:
    """Return the terms on which a job may be moved; "" if the job may not be moved."""
    said = row.text("movable", "")
    wrong = terms_fault([(MOVABLE, said)]) if said else None
    if wrong is not None:
        raise row.error(f"movable: {wrong[1]}")
    return said
