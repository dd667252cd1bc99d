"""`sacct`: the jobs that the head still knows, those that are over too."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

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
    flag("allocations", "X", note="always so: steps are not counted"),
    flag("allusers", "a"),
    Option("cluster", refused="there is one cluster"),
    Option("clusters", "M", note="all alone: there is one cluster"),
    Option("delimiter"),
    flag("duplicates", "D", note="one row a job"),
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
    Option("starttime", "S", note="ISO times, now, now-2days, today, midnight"),
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
    jobs = [
        job
        for job in jobs_wanted(ids, asked.get("name"))
        if job.state in wanted
        and (not users or user_of(job) in users)
        and (not queues or job.queue in queues)
        and (not accounts or job.annotations.get("slurm/account", "") in accounts)
        and (begin is None or job.finished is None or job.finished >= begin)
        and (end is None or job.submitted <= end)
    ]
    needs = "json" in asked or any(column.field in PLACES for column in columns)
    shown = Shown()
    rows = [shown.row(job, needs) for job in jobs]
    if "json" in asked:
        say(json_of([job_json(job, row) for job, row in zip(jobs, rows, strict=True)]))
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
    from phalanx.manifests.times import read_length, read_moment

    given = asked.get(name)
    if given is None:
        return None
    now = time.time()
    if given in ("today", "midnight"):
        return time.mktime((*time.localtime(now)[:3], 0, 0, 0, 0, 0, -1))
    if given.startswith("now-"):
        amount = given.removeprefix("now-")
        digits = amount.rstrip("abcdefghijklmnopqrstuvwxyz")
        unit = {"": "s", "s": "s", "m": "m", "h": "h", "d": "d"}.get(amount[len(digits) :][:1])
        if unit is None:
            raise OptionError(f"--{name}={given}: it is like now-2days or now-3hours")
        return now - read_length(digits + unit)
    moment = read_moment(given, now)
    return moment.since(now)
