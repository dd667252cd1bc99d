"""Reads Muri's job traces, which are CSV files with times in milliseconds."""

from __future__ import annotations

from pathlib import Path

from phalanx.scheduler.placement.fragmentation.shape import WHOLE
from phalanx_research.traces.fields import rows_of, unique
from phalanx_research.traces.records import TraceJob

COLUMNS = ("job_id", "num_gpu", "submit_time", "iterations", "model_name", "iteration_time")
STAGES = ("resource_time_0", "resource_time_1", "resource_time_2")
MORE = ("batch_size", "duration", "interval", *STAGES, "priority")
PROFILING = 1.015
"""The factor by which Muri's own simulator lengthens each job."""


def read_jobs(path: Path) -> list[TraceJob]:
    """Return jobs in the order of the file. The seconds of work are iterations * iteration_time /
    1000 * 1.015.

    A job's number of GPUs is a total. If a node has fewer GPUs, the job is spread over whole nodes.
    The column `priority` is 0 for jobs with guaranteed GPUs, and 1 for opportunistic jobs. These
    get the priority -1, so they come last. Raises TraceError for a faulty file, and for jobs that
    are not in the order of their submission.
    """
    jobs: list[TraceJob] = []
    last_s = 0.0
    for row in unique(rows_of(path, COLUMNS, MORE), "job_id"):
        gpus = row.count("num_gpu")
        if not gpus:
            raise row.error("num_gpu is 0; a job of this trace needs a GPU")
        submitted_s = row.number("submit_time") / 1000
        if submitted_s < last_s:
            raise row.error(
                f"submit_time ({submitted_s:g} s) is before the line above ({last_s:g} s): "
                "time runs backwards"
            )
        last_s = submitted_s
        iterations = row.count("iterations")
        iteration_ms = row.number("iteration_time")
        stated_ms = row.optional_number("duration")
        has_stages = all(name in row.fields for name in STAGES)
        jobs.append(
            TraceJob(
                name=row.text("job_id"),
                num_gpu=gpus,
                gpu_milli=WHOLE,
                submitted_s=submitted_s,
                duration_s=iterations * iteration_ms / 1000 * PROFILING,
                priority=-row.count("priority", 0),
                workload=row.text("model_name"),
                iterations=iterations,
                iteration_ms=iteration_ms,
                stages_ms=tuple(row.number(name) for name in STAGES) if has_stages else (),
                stated_s=None if stated_ms is None else stated_ms / 1000,
            )
        )
    return jobs
