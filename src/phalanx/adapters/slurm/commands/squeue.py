"""The command `squeue`: jobs that are not over."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NoReturn

from phalanx.adapters.slurm import formats
from phalanx.adapters.slurm.commands.array_rows import with_array_tasks
from phalanx.adapters.slurm.commands.queue_rows import Queue, quick_rows
from phalanx.adapters.slurm.commands.rows import (
    Shown,
    ids_in,
    jobs_wanted,
    user_of,
)
from phalanx.adapters.slurm.commands.usage import complain, read, refuse, words_of
from phalanx.adapters.slurm.commands.users import user_names
from phalanx.adapters.slurm.marks import NOTE, check_words
from phalanx.adapters.slurm.options import Option, flag, from_environment, ignored, maybe, parts
from phalanx.adapters.slurm.queue_columns import (
    SQUEUE_LETTERS,
    SQUEUE_NAMES,
    SQUEUE_STEP_LETTERS,
    SQUEUE_STEP_NAMES,
)
from phalanx.adapters.slurm.sorting import sorted_rows
from phalanx.adapters.slurm.states import elapsed, state_of, states_named
from phalanx.cli.ending import Ended
from phalanx.cli.reach import FAILED
from phalanx.cli.table import say
from phalanx.model.jobs import states as st
from phalanx.model.rows.work import JobInfo
from phalanx.runtime.os.accounts import user_name

SQUEUE = (
    Option("account", "A", note="selects by the note of sbatch --account, not by queue"),
    flag("all", "a", note="the default: jobs of all partitions are listed"),
    flag("array", "r"),
    flag("array-unique", note="another name of --array"),
    Option("clusters", "M", note="only the value phalanx is accepted: there is one cluster"),
    ignored("federation", note="there is one cluster", takes_value=False),
    Option("format", "o"),
    Option("Format", "O"),
    flag("help"),
    ignored("hide", note="no partition is hidden", takes_value=False),
    Option("iterate", "i"),
    Option("jobs", "j"),
    flag("json"),
    Option("licenses", "L"),
    ignored("local", note="there is one cluster", takes_value=False),
    flag("long", "l"),
    flag("me"),
    Option("name", "n"),
    ignored("noconvert", note="sizes are always in MiB", takes_value=False),
    flag("noheader", "h"),
    Option("partition", "p"),
    ignored("priority", "P", "each job has one partition", takes_value=False),
    Option("nodelist", "w"),
    Option("qos", "q"),
    Option("reservation", "R"),
    ignored("sibling", note="there is one cluster", takes_value=False),
    Option("sort", "S", note="letters of --format, with - for descending order; default: P,t,-p"),
    flag("start"),
    Option("states", "t"),
    maybe("steps", "s", note="lists running steps; a value selects the steps of these jobs"),
    flag("usage"),
    Option("user", "u"),
    ignored("verbose", "v", "errors are always printed", takes_value=False),
    flag("version", "V"),
    flag("yaml", refused="use --json"),
)
_USUAL = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R"
_LONG = "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R"
_START = "%.18i %.9P %.8j %.8u %.2t %.19S %.6D %20Y %R"
_STEPS = "%.15i %.8j %.9P %.8u %.9M %N"
_SORT, _SORT_STARTS, _SORT_STEPS = "P,t,-p", "S", "i"
_LIVE = {st.PREPARING, *(state for state in st.JOB if state not in st.FINISHED)}


def squeue(words: Sequence[str]) -> None:
    """List jobs that are not over."""
    asked, rest = read("squeue", SQUEUE, words, intermixed=True)
    if rest:
        refuse("squeue", f"Unrecognized option: {rest[0]}: only options are taken")
    asked = from_environment("SQUEUE_", SQUEUE, os.environ) | asked
    if "format" in asked and "Format" in asked:
        del asked["format" if "SQUEUE_FORMAT" in os.environ else "Format"]
    try:
        every_s = float(asked["iterate"]) if "iterate" in asked else None
        if every_s is not None and every_s <= 0:
            refuse("squeue", f"--iterate={asked['iterate']}")
        while True:
            _squeue(asked)
            if every_s is None:
                return
            time.sleep(max(every_s, 1.0))
    except ValueError as error:
        refuse("squeue", str(error))


def _columns(asked: Mapping[str, str]) -> list[formats.Column]:
    usual = _START if "start" in asked else _LONG if "long" in asked else _USUAL
    usual = _STEPS if "steps" in asked else usual
    if "Format" in asked:
        known = SQUEUE_STEP_NAMES if "steps" in asked else SQUEUE_NAMES
        columns, complaints = formats.names(asked["Format"], known)
    else:
        known = SQUEUE_STEP_LETTERS if "steps" in asked else SQUEUE_LETTERS
        columns, complaints = formats.letters(asked.get("format", usual), known)
    complain("squeue", complaints)
    return columns


def _squeue(asked: Mapping[str, str]) -> None:
    check_words({name: asked[name] for name in ("clusters",) if name in asked})
    columns = _columns(asked)
    wanted = states_named(asked["states"]) if "states" in asked else _LIVE
    if "start" in asked:
        wanted = {st.PENDING}
    fields = {column.field for column in columns}
    if "steps" in asked:
        jobs = _chosen(asked)
        jobs = [job for job in jobs if state_of(job.state, job.reason) in wanted]
        rows = sorted_rows(_steps(jobs), asked.get("sort", _SORT_STEPS), SQUEUE_STEP_LETTERS)
        _say(asked, columns, _on_nodes(asked, rows))
        return
    order = asked.get("sort", _SORT_STARTS if "start" in asked else _SORT)
    fields |= {SQUEUE_LETTERS[one].field for one in order if one in SQUEUE_LETTERS}
    fields |= {"nodelist"} if "nodelist" in asked else set()
    if "json" not in asked and (quick := _quick_rows(asked, fields, wanted)) is not None:
        _say(asked, columns, _on_nodes(asked, sorted_rows(quick, order, SQUEUE_LETTERS)))
        return
    jobs = _chosen(asked)
    jobs = with_array_tasks(jobs, _ids(asked), bool({"array", "array-unique"} & asked.keys()))
    jobs = [job for job in jobs if state_of(job.state, job.reason) in wanted]
    if "json" in asked:
        from phalanx.adapters.slurm.commands.job_json import job_json, json_of

        shown = Shown()
        say(json_of([job_json(job, shown.row(job)) for job in jobs]))
        return
    shown = Shown(fields)
    rows = sorted_rows([shown.row(job) for job in jobs], order, SQUEUE_LETTERS)
    _say(asked, columns, _on_nodes(asked, rows))


def _quick_rows(
    asked: Mapping[str, str], fields: Collection[str], states: Collection[str]
) -> list[dict[str, str]] | None:
    """Return the unsorted rows if they can be listed quickly."""
    ids, has_row_each = _ids(asked), bool({"array", "array-unique"} & asked.keys())
    names = parts(asked.get("name", ""))
    found = quick_rows(fields, Queue(ids, set(names), states, _choice(asked), has_row_each))
    if found is not None and len(ids) == 1 and not found.is_known:
        _refuse_id()
    return None if found is None else found.rows


def _say(
    asked: Mapping[str, str], columns: list[formats.Column], rows: Sequence[Mapping[str, str]]
) -> None:
    if asked.keys() & {"long", "iterate"} and "noheader" not in asked:
        say(time.strftime("%a %b %d %H:%M:%S %Y"))
    lines = formats.listed(columns, rows, "noheader" not in asked)
    if lines:
        say("\n".join(lines))


def _on_nodes(asked: Mapping[str, str], rows: Sequence[dict[str, str]]) -> Sequence[dict[str, str]]:
    if "nodelist" not in asked:
        return rows
    from phalanx.adapters.slurm.commands.asked_nodes import hosts_named

    wanted = hosts_named("squeue", asked["nodelist"])
    return [row for row in rows if not wanted.isdisjoint(row["nodelist"].split(","))]


def _steps(jobs: Sequence[JobInfo]) -> list[dict[str, str]]:
    from phalanx.adapters.slurm.commands.step_rows import by_job, running_steps, step_row, steps_of

    found, now = by_job(running_steps()), time.time()
    rows = []
    for job in jobs:
        of_job = {"user": user_of(job), "partition": job.queue}
        for step in steps_of(found, (job.namespace, job.name, job.recorded_as), ()):
            row = step_row(step, now)
            where = {"time": elapsed(step.elapsed_s(now)), "where": row["nodelist"]}
            rows.append(row | of_job | where | {"short": "R"})
    return rows


def _ids(asked: Mapping[str, str]) -> list[str]:
    """Return the ids of the jobs, and of the steps' jobs, that the options name. Blanks are
    ignored.
    """
    steps = [one.partition(".")[0] for one in parts(asked.get("steps", ""))]
    return [*ids_in(asked), *steps]


def _chosen(asked: Mapping[str, str]) -> list[JobInfo]:
    ids = _ids(asked)
    jobs = jobs_wanted(ids, asked.get("name"))
    if len(ids) == 1 and not jobs:
        _refuse_id()
    is_meant = _choice(asked)
    return jobs if is_meant is None else [job for job in jobs if is_meant(job)]


def _refuse_id() -> NoReturn:
    """End the command for a single unknown id. Of several ids, Slurm lists those that it knows."""
    say("slurm_load_jobs error: Invalid job id specified", err=True)
    raise Ended(FAILED)


def _choice(asked: Mapping[str, str]) -> Callable[[JobInfo], bool] | None:
    """Return the function that decides whether options other than --jobs and --name choose a job;
    None without such options.
    """
    users = user_names(words_of(asked, "user")) | ({user_name()} if "me" in asked else set())
    chosen = {option: words_of(asked, option) for option in ("partition", "account", "qos")}
    chosen |= {option: words_of(asked, option) for option in ("reservation", "licenses")}
    if not users and not any(chosen.values()):
        return None
    return lambda job: _is_meant(job, users, chosen)


def _is_meant(job: JobInfo, users: Collection[str], chosen: Mapping[str, Collection[str]]) -> bool:
    has = {
        "partition": {job.queue},
        "account": {job.annotations.get(f"{NOTE}account", "")},
        "qos": {job.annotations.get(f"{NOTE}qos", "")},
        "reservation": {job.reservation},
        "licenses": set(job.licenses),
    }
    return (not users or user_of(job) in users) and all(
        not wanted or not has[option].isdisjoint(wanted) for option, wanted in chosen.items()
    )
