"""`squeue`: the jobs that are not over."""

from __future__ import annotations

import getpass
import time
from collections.abc import Mapping, Sequence

from phalanx.adapters.slurm import formats
from phalanx.adapters.slurm.columns import SQUEUE_LETTERS, SQUEUE_NAMES
from phalanx.adapters.slurm.commands.array_rows import with_array_tasks
from phalanx.adapters.slurm.commands.rows import (
    PLACES,
    Shown,
    job_json,
    jobs_wanted,
    json_of,
    user_of,
)
from phalanx.adapters.slurm.commands.step_rows import by_job, running_steps, step_row, steps_of
from phalanx.adapters.slurm.commands.usage import read, refuse
from phalanx.adapters.slurm.options import Option, flag
from phalanx.adapters.slurm.states import elapsed, states_named
from phalanx.cli.table import say
from phalanx.model.jobs import states as st
from phalanx.model.rows.work import JobInfo

SQUEUE = (
    Option("account", "A"),
    flag("all", "a", note="always so"),
    flag("array", "r"),
    Option("format", "o"),
    Option("Format", "O"),
    flag("help", "h"),
    Option("iterate", "i"),
    Option("jobs", "j"),
    flag("json"),
    flag("long", "l"),
    flag("me"),
    Option("name", "n"),
    flag("noheader", note="-h, too"),
    Option("partition", "p"),
    Option("nodelist", "w", refused="nodes have no names to choose by"),
    Option("qos", "q", refused="there are queues and priorities"),
    Option("sort", "S", refused="rows come oldest first"),
    flag("start"),
    Option("states", "t"),
    flag("steps", "s", note="those that run, of the jobs chosen; no list"),
    Option("user", "u"),
    flag("version", "V"),
    flag("yaml", refused="use --json"),
)
_USUAL = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R"
_LONG = "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R"
_START = "%.18i %.9P %.8j %.8u %.2t %.19S %.6D %R"
_STEPS = "%.15i %.8j %.9P %.8u %.9M %N"
_LIVE = {state for state in st.JOB if state not in st.FINISHED}


def squeue(words: Sequence[str]) -> None:
    """List jobs that are not over."""
    asked, rest = read("squeue", SQUEUE, _with_no_header(words))
    if rest:
        refuse("squeue", f"{rest[0]}: options alone are taken")
    try:
        while True:
            _squeue(asked)
            if "iterate" not in asked:
                return
            time.sleep(max(float(asked["iterate"]), 1.0))
    except ValueError as error:
        refuse("squeue", str(error))


def _with_no_header(words: Sequence[str]) -> list[str]:
    """squeue's -h is --noheader; --help has no letter."""
    return ["--noheader" if word == "-h" else word for word in words]


def _squeue(asked: Mapping[str, str]) -> None:
    usual = _START if "start" in asked else _LONG if "long" in asked else _USUAL
    usual = _STEPS if "steps" in asked else usual
    if "Format" in asked:
        columns = formats.names(asked["Format"], SQUEUE_NAMES, "squeue", 20)
    else:
        columns = formats.letters(asked.get("format", usual), SQUEUE_LETTERS, "squeue")
    wanted = states_named(asked["states"]) if "states" in asked else _LIVE
    if "start" in asked:
        wanted = {st.PENDING}
    jobs = _chosen(asked)
    if "steps" in asked:
        jobs = [job for job in jobs if job.state in wanted]
        for line in formats.listed(columns, _steps(jobs), "noheader" not in asked):
            say(line)
        return
    jobs = with_array_tasks(jobs, _ids(asked), "array" in asked)
    jobs = [job for job in jobs if job.state in wanted]
    shown = Shown()
    needs = "json" in asked or any(column.field in PLACES for column in columns)
    rows = [shown.row(job, needs and job.state != st.PENDING) for job in jobs]
    if "json" in asked:
        say(json_of([job_json(job, row) for job, row in zip(jobs, rows, strict=True)]))
        return
    for line in formats.listed(columns, rows, "noheader" not in asked):
        say(line)


def _steps(jobs: Sequence[JobInfo]) -> list[dict[str, str]]:
    """The steps of these jobs that run."""
    found, now = by_job(running_steps()), time.time()
    rows = []
    for job in jobs:
        of_job = {"user": user_of(job), "partition": job.queue}
        for step in steps_of(found, (job.namespace, job.name, job.submitted), ()):
            row = step_row(step, now)
            where = {"time": elapsed(step.elapsed_s(now)), "where": row["nodelist"]}
            rows.append(row | of_job | where | {"short": "R"})
    return rows


def _ids(asked: Mapping[str, str]) -> list[str]:
    return [one for one in asked.get("jobs", "").split(",") if one]


def _chosen(asked: Mapping[str, str]) -> list[JobInfo]:
    ids = _ids(asked)
    jobs = jobs_wanted(ids, asked.get("name"))
    if ids and not jobs:
        refuse("squeue", "Invalid job id specified")
    users = set(filter(None, asked.get("user", "").split(",")))
    users |= {getpass.getuser()} if "me" in asked else set()
    queues = set(filter(None, asked.get("partition", "").split(",")))
    accounts = set(filter(None, asked.get("account", "").split(",")))
    return [
        job
        for job in jobs
        if (not users or user_of(job) in users)
        and (not queues or job.queue in queues)
        and (not accounts or job.annotations.get("slurm/account", "") in accounts)
    ]
