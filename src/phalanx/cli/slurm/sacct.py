"""`sacct`: the jobs that the head still knows, and those of the history."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from phalanx.cli.periods import past_moment
from phalanx.cli.slurm.past import cpu_time, past_jobs
from phalanx.cli.slurm.rows import PLACES, Shown, job_json, jobs_wanted, json_of, user_of
from phalanx.cli.slurm.usage import read, refuse
from phalanx.cli.table import say
from phalanx.compat.slurm import formats
from phalanx.compat.slurm.columns import SACCT_FIELDS
from phalanx.compat.slurm.options import Option, OptionError, flag
from phalanx.compat.slurm.states import states_named
from phalanx.model.jobs import states as st

SACCT = (
    Option("accounts", "A"),
    flag("allclusters", "L", note="there is one cluster"),
    flag(
        "allocations",
        "X",
        note="else JOB.batch has what was used; steps have no rows",
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
)
_SACCT = "JobID,JobName,Partition,Account,AllocCPUS,State,ExitCode"
_WIDTH = 12


def sacct(words: Sequence[str]) -> None:
    """List jobs that the head still knows, those that are over too."""
    asked, _ = read("sacct", SACCT, words)
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
    past = past_jobs(begin, end, ids)
    rows: list[dict[str, str]] = []
    listed: list[dict[str, object]] = []
    for job in jobs:
        row = shown.row(job, needs)
        row["cputime"], row["cpuseconds"] = cpu_time(float(row["cpus"]), job.ran_s)
        known = past.pop((job.namespace, job.name, job.submitted), None)
        row |= {} if known is None else known.used()
        listed.append(job_json(job, row))
        rows.append(row)
        rows += [] if known is None or "allocations" in asked else [known.batch(row)]
    for known in past.values():
        row = known.row()
        if (
            (known.state in wanted)
            and known.is_named(ids, asked.get("name"))
            and (not users or row["user"] in users)
            and (not queues or row["partition"] in queues)
            and not accounts
        ):
            rows += [row] if "allocations" in asked else [row, known.batch(row)]
            listed.append(known.json(row))
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


def _moment(asked: Mapping[str, str], name: str) -> float | None:
    given = asked.get(name)
    try:
        return None if given is None else past_moment(given, time.time())
    except ValueError as error:
        raise OptionError(f"--{name}: {error}") from None
