"""`sacct`: the jobs that the head still knows, and those of the history."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from phalanx.adapters.slurm import formats
from phalanx.adapters.slurm.columns import SACCT_FIELDS
from phalanx.adapters.slurm.commands.past import PastJob, cpu_time, past_jobs
from phalanx.adapters.slurm.commands.rows import (
    PLACES,
    Shown,
    job_json,
    jobs_wanted,
    json_of,
    user_of,
)
from phalanx.adapters.slurm.commands.step_rows import step_json, step_row, steps_of
from phalanx.adapters.slurm.commands.usage import read, refuse
from phalanx.adapters.slurm.options import Option, OptionError, flag
from phalanx.adapters.slurm.request import NOTE
from phalanx.adapters.slurm.states import states_named
from phalanx.cli.periods import past_moment
from phalanx.cli.table import say
from phalanx.model.jobs import states as st
from phalanx.model.rows.work import JobInfo
from phalanx.model.steps import Step

SACCT = (
    Option("accounts", "A"),
    flag("allclusters", "L", note="there is one cluster"),
    flag(
        "allocations",
        "X",
        note="else JOB.batch and JOB.0 ... are below their job",
    ),
    flag("allusers", "a"),
    Option("cluster", refused="there is one cluster"),
    Option("clusters", "M", note="all alone: there is one cluster"),
    Option("delimiter"),
    flag("duplicates", "D", note="one row a job, of all its attempts"),
    Option("endtime", "E"),
    Option("format", "o"),
    flag("help", "h"),
    Option("jobs", "j"),
    flag("json"),
    Option("name"),
    flag("noheader", "n"),
    flag("parsable", "p"),
    flag("parsable2", "P"),
    Option("partition", "r"),
    Option(
        "starttime",
        "S",
        note="ISO times, 2d, now-2days, today; today without it and --jobs",
    ),
    Option("state", "s"),
    Option("user", "u"),
    Option("uid", refused="use --user"),
    flag("version", "V"),
    flag("yaml", refused="use --json"),
    flag("long", "l", refused="use --format"),
    flag("brief", "b"),
    flag("helpformat", "e"),
)
_SACCT = "JobID,JobName,Partition,Account,AllocCPUS,State,ExitCode"
_WIDTH = 12
_OF_JOBS = dict.fromkeys(("user", "partition", "timelimit", "priority", "directory", "comment"), "")
"""Fields that steps have not."""


def sacct(words: Sequence[str]) -> None:
    """List jobs that the head still knows, those that are over too."""
    asked, _ = read("sacct", SACCT, words)
    if "helpformat" in asked:
        say(" ".join(SACCT_FIELDS))
        return
    try:
        _sacct(asked)
    except ValueError as error:
        refuse("sacct", str(error))


def _sacct(asked: Mapping[str, str]) -> None:
    usual = "JobID,State,ExitCode" if "brief" in asked else _SACCT
    columns = formats.names(asked.get("format", usual), SACCT_FIELDS, "sacct", _WIDTH)
    if asked.get("clusters", "all") not in ("all", "phalanx"):
        raise OptionError("--clusters: there is one cluster, phalanx")
    begin, end = _moment(asked, "starttime"), _moment(asked, "endtime")
    wanted = states_named(asked["state"]) if "state" in asked else set(st.JOB)
    ids = [one for one in asked.get("jobs", "").split(",") if one]
    users = set(filter(None, asked.get("user", "").split(",")))
    queues = set(filter(None, asked.get("partition", "").split(",")))
    accounts = set(filter(None, asked.get("accounts", "").split(",")))
    known_jobs = jobs_wanted(ids, asked.get("name"))
    jobs = [
        job
        for job in known_jobs
        if job.state in wanted
        and (not users or user_of(job) in users)
        and (not queues or job.queue in queues)
        and (not accounts or job.annotations.get("slurm/account", "") in accounts)
        and (begin is None or job.finished is None or job.finished >= begin)
        and (end is None or job.submitted <= end)
    ]
    needs = "json" in asked or any(column.field in PLACES for column in columns)
    shown = Shown()
    past, steps = past_jobs(begin, end, ids)
    rows: list[dict[str, str]] = []
    listed: list[dict[str, object]] = []
    for job in jobs:
        row = shown.row(job, needs) | _so_far(job)
        row["cputime"], row["cpuseconds"] = cpu_time(float(row["cpus"]), job.ran_s)
        known = past.pop((job.namespace, job.name, job.submitted), None)
        row |= {} if known is None else known.used()
        mine = steps_of(steps, (job.namespace, job.name, job.submitted), past)
        below = _below(row, known, mine, f"{NOTE}script" in job.annotations)
        listed.append(job_json(job, row) | {"steps": [step_json(one) for one in below]})
        rows += [row] if "allocations" in asked else [row, *below]
    for name, known in past.items():
        row = known.row()
        if (
            (known.state in wanted)
            and known.is_named(ids, asked.get("name"))
            and (not users or row["user"] in users)
            and (not queues or row["partition"] in queues)
            and not accounts
        ):
            below = _below(row, known, steps.get(name, []), False)
            rows += [row] if "allocations" in asked else [row, *below]
            listed.append(known.json(row) | {"steps": [step_json(one) for one in below]})
    rows = [row for row in rows if _is_meant(row["id"], ids)]
    if "json" in asked:
        say(json_of(listed))
        return
    separator = ""
    if "parsable" in asked or "parsable2" in asked:
        separator = asked.get("delimiter", "|")
    has_head = "noheader" not in asked
    lines = formats.listed(columns, rows, has_head, separator)
    if not separator:
        spaced = [formats.Column(c.field, c.title, c.width, True, " ") for c in columns]
        lines = [line[1:] for line in formats.listed(spaced, rows, has_head)]
        if has_head:
            lines.insert(1, " ".join("-" * column.width for column in columns))
    ends = separator if "parsable" in asked else ""
    for line in lines:
        say(line + ends)


def _so_far(job: JobInfo) -> dict[str, str]:
    """A history knows no times to come."""
    if job.finished is not None:
        return {}
    return {"end": "Unknown"} | ({"start": "Unknown"} if job.state == st.PENDING else {})


def _below(
    row: Mapping[str, str], known: PastJob | None, steps: Sequence[Step], has_script: bool
) -> list[dict[str, str]]:
    """The rows of a job's steps, that of its script first. `known`: what has ended of it."""
    batch: list[dict[str, str]] = []
    if known is not None and known.has_script:
        batch = [known.batch(row, steps)]
    elif known is None and has_script and row["state"] == "RUNNING":
        batch = [{**row, "id": f"{row['id']}.batch", "name": "batch", "tasks": "1"} | _OF_JOBS]
    now = time.time()
    return [*batch, *(step_row(step, now) for step in steps)]


def _is_meant(id: str, ids: Sequence[str]) -> bool:
    """Whether a row was asked for: of an id such as 12.0 that row alone, and of an element that has
    none yet that of its array."""
    job = id.partition(".")[0]
    arrays = {one.partition("_")[0] for one in ids if "." not in one}
    return not ids or id in arrays or not {id, job, job.partition("_")[0]}.isdisjoint(ids)


def _moment(asked: Mapping[str, str], name: str) -> float | None:
    given = asked.get(name)
    try:
        return None if given is None else past_moment(given, time.time())
    except ValueError as error:
        raise OptionError(f"--{name}: {error}") from None
