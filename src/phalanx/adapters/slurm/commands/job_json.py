"""The JSON of `squeue --json`."""

from __future__ import annotations

import json
from collections.abc import Mapping

from phalanx.model.jobs.arrays import split_element
from phalanx.model.rows.work import JobInfo


def json_of(jobs: list[dict[str, object]]) -> str:
    """Return Slurm's JSON document around jobs."""
    from phalanx import __version__

    meta = {"plugin": {"name": "Phalanx"}, "Slurm": {"release": f"Phalanx {__version__}"}}
    return json.dumps({"jobs": jobs, "meta": meta, "errors": [], "warnings": []}, indent=1)


def job_json(job: JobInfo, row: Mapping[str, str]) -> dict[str, object]:
    """Return the known fields of a job in Slurm's JSON."""

    def number(value: float | None) -> dict[str, object]:
        return {"set": value is not None, "infinite": False, "number": int(value or 0)}

    array, index = split_element(job.name) or (job.name, "")
    limit = None if job.time_limit_s is None else job.time_limit_s / 60
    code, _, signal = row["code"].partition(":")
    return {
        "job_id": int(array) if array.isdecimal() else array,
        **({"array_job_id": number(float(array))} if index and array.isdecimal() else {}),
        **({"array_task_id": number(float(index))} if index.isdecimal() else {}),
        **({"array_task_string": index} if index else {}),
        "name": row["name"],
        "partition": job.queue,
        "user_name": row["user"],
        "account": row["account"],
        "comment": row["comment"],
        "job_state": [row["state"]],
        "state_reason": row["reason"],
        "nodes": row["nodelist"],
        "node_count": number(float(row["nodes"])),
        "cpus": number(float(row["cpus"])),
        "tasks": number(float(row["tasks"])),
        "priority": number(float(row["priority"])),
        "time_limit": {**number(limit), "infinite": limit is None},
        "submit_time": number(job.submitted),
        "start_time": number(job.started),
        "end_time": number(job.finished if job.finished is not None else job.ends),
        "exit_code": {"return_code": number(int(code)), "signal": {"id": number(int(signal))}},
        "current_working_directory": row["directory"],
        "restart_cnt": job.restarts,
        "hold": job.is_held,
    }
