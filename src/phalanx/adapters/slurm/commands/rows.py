"""Jobs of the cluster as Slurm's listings show them."""

from __future__ import annotations

import getpass
import json
import time
from collections.abc import Mapping, Sequence

from phalanx.adapters.slurm.commands.usage import address
from phalanx.adapters.slurm.request import NOTE
from phalanx.adapters.slurm.states import JOB, code_of, elapsed
from phalanx.cli.accounting_view import length
from phalanx.cli.reach import ask
from phalanx.cli.times import clock
from phalanx.model.jobs import states as st
from phalanx.model.jobs.arrays import split_element
from phalanx.model.rows.work import JobDescription, JobInfo
from phalanx.protocol.requests.cluster import GetStatus
from phalanx.protocol.requests.jobs import GetJob, ListJobs

PLACES = frozenset({"where", "nodelist", "nodes"})
"""Fields that need to know where a job runs."""


def jobs_wanted(ids: Sequence[str], name: str | None) -> list[JobInfo]:
    """All jobs, or those of these ids (with parts such as `.batch` left out) and this name."""
    wanted = {one.partition("_")[0].partition(".")[0] for one in ids}
    rows = ask(address(), ListJobs())
    rows = [row for row in rows if not ids or row.name in wanted]
    names = set(name.split(",")) if name else set()
    return [row for row in rows if not names or job_name(row) in names]


def job_name(row: JobInfo) -> str:
    """What it was called when it was submitted."""
    return row.annotations.get(f"{NOTE}name", row.name)


def user_of(row: JobInfo) -> str:
    """Who submitted it, as far as it was noted: others of the cluster are the same user."""
    return row.annotations.get(f"{NOTE}user") or getpass.getuser()


class Shown:
    """Jobs as rows of text; asks for places of jobs only where a row needs them."""

    def __init__(self) -> None:
        self._hosts: dict[str, str] | None = None

    def row(self, job: JobInfo, needs_places: bool) -> dict[str, str]:
        """The fields of a job."""
        long, short = JOB[job.state]
        notes = {key.removeprefix(NOTE): v for key, v in job.annotations.items()}
        where = self._places(job.name, job.namespace) if needs_places else None
        expected = job.expected_start
        start = job.started
        if job.state == st.PENDING:  # it may have run before
            start = None if expected is None else expected.at_s
        elif job.restarts and job.finished is None:
            start = time.time() - job.ran_s
        array, index = split_element(job.name) or (job.name, "N/A")
        reason = job.reason if job.state == st.PENDING else "None"
        if job.is_held:
            reason = "JobHeldUser"
        nodes = where["list"] if where else ""
        code = self.exit_code(job)
        return {
            "id": _row_id(job.name),
            "array": array,
            "index": index,
            "partition": job.queue,
            "name": job_name(job),
            "user": user_of(job),
            "account": notes.get("account", ""),
            "comment": notes.get("comment", ""),
            "wckey": notes.get("wckey", ""),
            "directory": notes.get("directory", ""),
            "state": long,
            "short": short,
            "time": elapsed(job.ran_s),
            "elapsed": length(job.ran_s),
            "seconds": str(int(job.ran_s)),
            "limit": elapsed(job.time_limit_s),
            "timelimit": length(job.time_limit_s) if job.time_limit_s else "UNLIMITED",
            "left": elapsed(None if job.time_limit_s is None else job.time_limit_s - job.ran_s),
            "nodes": where["count"] if where else str(job.replicas),
            "nodelist": nodes,
            "cpus": notes.get("cpus", str(job.replicas)),
            "tasks": notes.get("tasks", str(job.replicas)),
            "reason": reason or "None",
            "where": nodes if job.state != st.PENDING else f"({reason or 'None'})",
            "priority": str(job.priority),
            "submit": clock(job.submitted),
            "start": clock(start, "N/A" if job.state == st.PENDING else "Unknown"),
            "end": clock(job.finished if job.finished is not None else job.ends),
            "code": code,
            "restarts": str(job.restarts),
        }

    def _places(self, name: str, namespace: str) -> dict[str, str]:
        if self._hosts is None:
            self._hosts = {row.node_id: row.host for row in ask(address(), GetStatus()).nodes}
        found = ask(address(), GetJob(f"{namespace}/{name}"))
        nodes = dict.fromkeys(member.node for member in found.members if member.node)
        hosts = dict.fromkeys(self._hosts.get(node, node[:8]) for node in nodes)
        return {"list": ",".join(hosts), "count": str(len(nodes) or found.replicas)}

    def exit_code(self, job: JobInfo) -> str:
        """Slurm's CODE:SIGNAL; of a job that is over badly, from its first member that failed."""
        if job.state == st.COMPLETED or job.finished is None:
            return "0:0"
        found = ask(address(), GetJob(f"{job.namespace}/{job.name}"))
        return code_text(found)


def _row_id(name: str) -> str:
    """12_7 of one element, 12_[3-5%2] of several that wait."""
    array, index = split_element(name) or (name, "")
    if not index:
        return name
    return f"{array}_{index}" if index.isdecimal() else f"{array}_[{index}]"


def code_text(job: JobDescription) -> str:
    """Slurm's CODE:SIGNAL of a job's first member that failed."""
    code = next((m.exit_code for m in job.members if m.exit_code), 0)
    return code_of(code)


def json_of(jobs: list[dict[str, object]]) -> str:
    """Slurm's outermost fields around jobs."""
    from phalanx import __version__

    meta = {"plugin": {"name": "Phalanx"}, "Slurm": {"release": f"Phalanx {__version__}"}}
    return json.dumps({"jobs": jobs, "meta": meta, "errors": [], "warnings": []}, indent=1)


def job_json(job: JobInfo, row: Mapping[str, str]) -> dict[str, object]:
    """The fields of Slurm's JSON that are known here."""

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
        "priority": number(job.priority),
        "time_limit": {**number(limit), "infinite": limit is None},
        "submit_time": number(job.submitted),
        "start_time": number(job.started),
        "end_time": number(job.finished if job.finished is not None else job.ends),
        "exit_code": {"return_code": number(int(code)), "signal": {"id": number(int(signal))}},
        "current_working_directory": row["directory"],
        "restart_cnt": job.restarts,
        "hold": job.is_held,
    }
