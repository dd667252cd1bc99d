"""The command `sacct`: the jobs that the head still knows, and the jobs in the history."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping, Sequence

from phalanx.adapters.slurm import formats
from phalanx.adapters.slurm.accounting_columns import SACCT_FIELDS
from phalanx.adapters.slurm.commands.accounting_json import job_entry
from phalanx.adapters.slurm.commands.chosen_rows import CHOICES, is_chosen
from phalanx.adapters.slurm.commands.job_json import json_of
from phalanx.adapters.slurm.commands.past import PastJob, cpu_time, past_jobs
from phalanx.adapters.slurm.commands.rows import (
    PLACES,
    Shown,
    accounted_tres,
    ids_in,
    jobs_wanted,
    planned,
)
from phalanx.adapters.slurm.commands.step_rows import step_row, steps_of
from phalanx.adapters.slurm.commands.usage import read, refuse
from phalanx.adapters.slurm.marks import CLUSTER, NOTE, check_words
from phalanx.adapters.slurm.options import Option, OptionError, flag, ignored
from phalanx.adapters.slurm.sizes import in_units
from phalanx.adapters.slurm.states import (
    JOB,
    OUT_OF_MEMORY,
    OUT_OF_MEMORY_CODE,
    state_of,
    states_named,
)
from phalanx.adapters.slurm.times import slurm_moment
from phalanx.cli.periods import past_moment
from phalanx.cli.table import say
from phalanx.model.jobs import states as st
from phalanx.model.rows.work import JobInfo
from phalanx.model.steps import Step

SACCT = (
    Option("accounts", "A", note="selects by the note of sbatch --account, not by queue"),
    ignored("allclusters", "L", "there is one cluster", takes_value=False),
    flag(
        "allocations",
        "X",
        note="without this option, the steps JOB.batch, JOB.0 ... are listed below their job",
    ),
    flag("allusers", "a"),
    Option("associations", "x", refused="use --user and --accounts"),
    flag("batch-script", "B", refused="scripts are not listed"),
    Option("cluster", note="only the value phalanx is accepted: there is one cluster"),
    Option(
        "clusters", "M",
        note="only the values phalanx and all are accepted: there is one cluster",
    ),
    flag("completion", "c", refused="there is one history of jobs"),
    Option("constraints", "C"),
    Option("delimiter"),
    ignored(
        "duplicates", "D", "a job has one row, whatever its number of attempts", takes_value=False
    ),
    Option("endtime", "E"),
    flag("env-vars", refused="use `phalanx job`"),
    ignored("federation", note="there is one cluster", takes_value=False),
    Option("file", "f", refused="the head keeps the history"),
    Option("flags", "F", refused="the scheduler that chose a place is not recorded"),
    Option("format", "o"),
    Option("gid", "g", refused="use --user"),
    flag("help", "h"),
    Option("jobs", "j"),
    flag("json"),
    ignored("local", note="there is one cluster", takes_value=False),
    Option("name"),
    Option("ncpus", "I"),
    Option("nnodes", "i"),
    flag("noconvert"),
    Option("nodelist", "N"),
    flag("noheader", "n"),
    flag("parsable", "p"),
    flag("parsable2", "P"),
    Option("partition", "r"),
    Option("qos", "q"),
    Option("reason", "R"),
    Option(
        "starttime",
        "S",
        note="a time in one of Slurm's forms, or a length such as 2d (2 days ago); default: "
            "today or, with --jobs, no limit",
    ),
    Option("state", "s"),
    Option("timelimit-max", "K", refused="use --format=TimelimitRaw"),
    Option("timelimit-min", "k", refused="use --format=TimelimitRaw"),
    flag("truncate", "T"),
    Option("units", note="applies only to ReqMem, MaxRSS, AveRSS and the memory of TRES"),
    flag("usage"),
    ignored("use-local-uid", note="users are always those of this machine", takes_value=False),
    Option("user", "u"),
    Option("uid", note="another name of --user"),
    ignored("verbose", "v", "errors are always printed", takes_value=False),
    flag("version", "V"),
    Option("wckeys", "W"),
    Option(
        "whole-hetjob", note="jobs have one group of nodes", is_optional=True, is_ignored=True
    ),
    flag("yaml", refused="use --json"),
    flag("long", "l"),
    flag("brief", "b"),
    flag("helpformat", "e"),
)  # fmt: skip
_SACCT = "JobID,JobName,Partition,Account,AllocCPUS,State,ExitCode"
_LONG = (
    "JobID,JobIDRaw,JobName,Partition,MaxVMSize,MaxVMSizeNode,MaxVMSizeTask,AveVMSize,MaxRSS,"
    "MaxRSSNode,MaxRSSTask,AveRSS,MaxPages,MaxPagesNode,MaxPagesTask,AvePages,MinCPU,MinCPUNode,"
    "MinCPUTask,AveCPU,NTasks,AllocCPUS,Elapsed,State,ExitCode,AveCPUFreq,ReqCPUFreqMin,"
    "ReqCPUFreqMax,ReqCPUFreqGov,ReqMem,ConsumedEnergy,MaxDiskRead,MaxDiskReadNode,"
    "MaxDiskReadTask,AveDiskRead,MaxDiskWrite,MaxDiskWriteNode,MaxDiskWriteTask,AveDiskWrite,"
    "ReqTRES,AllocTRES,TRESUsageInAve,TRESUsageInMax"
)
_OF_JOBS = dict.fromkeys(
    ("user", "uid", "group", "gid", "partition", "timelimit", "timelimit_raw", "priority",
     "directory", "comment", "reqmem", "submit_line", "qos", "features", "wckey", "licenses",
     "reservation", "stdin", "stdout", "stderr", "eligible", "planned", "planned_cpu",
     "planned_cpu_raw"), ""
)  # fmt: skip
"""The fields that jobs have, and steps do not have."""


def sacct(words: Sequence[str]) -> None:
    """List jobs of the head and of the history."""
    asked, rest = read("sacct", SACCT, words)
    if rest:
        refuse("sacct", f"{rest[0]}: only options are taken; name jobs with --jobs")
    if "helpformat" in asked:
        say(" ".join(SACCT_FIELDS))
        return
    try:
        _sacct(asked)
    except ValueError as error:
        refuse("sacct", str(error))


def _sacct(asked: Mapping[str, str]) -> None:
    check_words({"clusters": asked.get("clusters", asked.get("cluster", CLUSTER))})
    usual = "JobID,State,ExitCode" if "brief" in asked else _LONG if "long" in asked else _SACCT
    columns = formats.sacct_names(asked.get("format", usual), SACCT_FIELDS, "sacct")
    begin, end = _moment(asked, "starttime"), _moment(asked, "endtime")
    wanted = states_named(asked["state"]) if "state" in asked else set(JOB)
    ids = ids_in(asked)
    jobs = [
        job
        for job in jobs_wanted(ids, asked.get("name"))
        if state_of(job.state, job.reason) in wanted
        and (begin is None or job.finished is None or job.finished >= begin)
        and (end is None or job.submitted <= end)
    ]
    fields = {column.field for column in columns}
    fields |= {CHOICES[one] for one in asked if one in CHOICES}
    is_whole = "json" in asked
    needs_places = is_whole or not PLACES.isdisjoint(fields)
    shown = Shown(None if is_whole else fields | _ALWAYS, needs_places)
    past, steps = past_jobs(begin, end, ids)
    found: list[tuple[dict[str, str], list[dict[str, str]]]] = []
    for job in jobs:
        row = shown.row(job) | _so_far(job) | planned(job, time.time())
        row["cputime"], row["cpuseconds"] = cpu_time(float(row["cpus"]), job.ran_s)
        row["reqmem"], row["tres"] = row["memory"], accounted_tres(row["tres"])
        known = past.pop((job.namespace, job.name, job.recorded_as), None)
        row |= {} if known is None else known.used()
        mine = steps_of(steps, (job.namespace, job.name, job.recorded_as), past)
        found.append((row, _below(row, known, mine, f"{NOTE}script" in job.annotations)))
    for name, known in past.items():
        if known.state in wanted and known.is_named(ids, asked.get("name")):
            row = known.row()
            found.append((row, _below(row, known, steps.get(name, []), False)))
    found = [pair for pair in found if is_chosen(pair[0], asked)]
    for row, below in found:
        _tell_ends(row, below)
    if "json" in asked:
        meant = [pair for pair in found if _is_meant(pair[0]["id"], ids)]
        say(json_of([job_entry(row, below) for row, below in meant]))
        return
    rows = [one for row, below in found for one in [row, *below] if _is_meant(one["id"], ids)]
    if "allocations" in asked:
        rows = [row for row in rows if "." not in row["id"]]
    if "units" in asked:
        rows = [row | {name: in_units(row.get(name, ""), asked["units"]) for name in _SIZES}
                for row in rows]  # fmt: skip
    _say(asked, columns, rows)


def _say(
    asked: Mapping[str, str],
    columns: Sequence[formats.Column],
    rows: Sequence[Mapping[str, str]],
) -> None:
    separator = asked.get("delimiter", "|") if asked.keys() & {"parsable", "parsable2"} else ""
    has_head = "noheader" not in asked
    lines = formats.listed(columns, rows, has_head, separator)
    if has_head and not separator:
        lines.insert(1, "".join("-" * column.width + " " for column in columns))
    ends = separator if "parsable" in asked else ""
    for line in lines:
        say(line + ends)


_ALWAYS = frozenset(
    {"id", "name", "user", "uid", "partition", "account", "state", "code", "cpus", "memory", "tres",
     "seconds", "elapsed", "nodes", "nodelist", "tasks", "submit", "start", "end", "timelimit"}
)  # fmt: skip
"""The fields that are always computed, because options choose rows by them, or because rows of
steps are made from them.
"""
_SIZES = ("reqmem", "maxrss", "averss", "tres", "usage_max", "usage_ave", "usage_tot")


def _tell_ends(row: dict[str, str], below: Sequence[dict[str, str]]) -> None:
    """Set the exit codes by Slurm's rules: a job that was cancelled, or that reached its time
    limit, has code 0, and its script has the signal SIGTERM.
    """
    if row["state"] in ("CANCELLED", "TIMEOUT"):
        row["code"] = "0:0"
        for one in below:
            if one["id"].endswith(".batch"):
                one["state"], one["code"] = "CANCELLED", f"0:{int(signal.SIGTERM)}"
    if row["state"] == JOB[OUT_OF_MEMORY][0]:
        killed = f":{int(signal.SIGKILL)}"
        for one in (row, *(one for one in below if one["code"].endswith(killed))):
            one["state"], one["code"] = row["state"], OUT_OF_MEMORY_CODE
    if row["state"] == "CANCELLED":
        row["state"] = f"CANCELLED by {row.get('uid') or os.getuid()}"


def _so_far(job: JobInfo) -> dict[str, str]:
    """Return the fields that replace a job's expected times, because a history has only times in
    the past.
    """
    if job.finished is not None:
        return {}
    return {"end": "Unknown"} | ({"start": "Unknown"} if job.state == st.PENDING else {})


def _below(
    row: Mapping[str, str], known: PastJob | None, steps: Sequence[Step], has_script: bool
) -> list[dict[str, str]]:
    """Return the rows of a job's script and steps. The script comes first. `known`: the job's past
    attempts.
    """
    batch: list[dict[str, str]] = []
    if known is not None and known.has_script:
        batch = [known.batch(row, steps)]
    elif known is None and has_script and row["state"] == "RUNNING":
        batch = [{**row, "id": f"{row['id']}.batch", "name": "batch", "tasks": "1"} | _OF_JOBS]
    now = time.time()
    return [*batch, *(step_row(step, now) for step in steps)]


def _is_meant(id: str, ids: Sequence[str]) -> bool:
    """Whether the given ids select a row. An id such as 12.0 selects only that step. The id of an
    array task that has no row selects the row of its array.
    """
    job = id.partition(".")[0]
    arrays = {one.partition("_")[0] for one in ids if "." not in one}
    return not ids or id in arrays or not {id, job, job.partition("_")[0]}.isdisjoint(ids)


def _moment(asked: Mapping[str, str], name: str) -> float | None:
    """Read a moment in Slurm's forms or in Phalanx's."""
    given = asked.get(name)
    if given is None:
        return None
    try:
        return slurm_moment(given, time.time(), is_past=True)
    except ValueError:
        pass
    try:
        return past_moment(given, time.time())
    except ValueError as error:
        raise OptionError(f"--{name}: {error}") from None
