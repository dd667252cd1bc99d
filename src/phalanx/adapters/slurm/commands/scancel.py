"""The command `scancel`: ends jobs, and sends signals to running jobs."""

from __future__ import annotations

import getpass
import os
import re
import signal
from collections.abc import Collection, Mapping, Sequence

from phalanx.adapters.slurm.commands.asked_nodes import hosts_named
from phalanx.adapters.slurm.commands.numbers import array_task_or_job, slurm_id
from phalanx.adapters.slurm.commands.rows import Shown, jobs_wanted, user_of
from phalanx.adapters.slurm.commands.usage import address, read, refuse, words_of
from phalanx.adapters.slurm.commands.users import account_of, user_names
from phalanx.adapters.slurm.marks import NOTE, check_words
from phalanx.adapters.slurm.options import Option, flag, from_environment, ignored, parts
from phalanx.adapters.slurm.request import BATCH
from phalanx.adapters.slurm.states import states_named
from phalanx.api.signals import signal_number
from phalanx.cli.ending import Ended
from phalanx.cli.reach import FAILED, ask
from phalanx.cli.table import say
from phalanx.model.jobs import states as st
from phalanx.model.rows.work import JobInfo
from phalanx.protocol.requests.jobs import CommandJob
from phalanx.protocol.requests.steps import SignalJob

SCANCEL = (
    Option("account", "A", note="selects by the note of sbatch --account, not by queue"),
    flag("batch", "b", note="with --signal: sends the signal only to the batch script"),
    Option("clusters", "M", note="only the value phalanx is accepted: there is one cluster"),
    ignored("ctld", note="the head always sends the signal", takes_value=False),
    flag(
        "full",
        "f",
        note="with --signal: sends the signal to the batch script and to all steps or, in a "
        "job without steps, to all processes of the script",
    ),
    flag("help"),
    ignored("hurry", "H", "a cancelled job copies no files", takes_value=False),
    flag("interactive", "i", refused="scancel asks no questions"),
    Option("jobname", "n"),
    Option("name", note="another name of --jobname"),
    flag("me"),
    Option("nodelist", "w"),
    Option("partition", "p"),
    Option("qos", "q"),
    flag("quiet", "Q"),
    Option("reservation", "R"),
    ignored("sibling", note="there is one cluster"),
    Option(
        "signal",
        "s",
        note="sends a signal instead of ending jobs: to the steps or, in a job without steps, "
        "to the processes that the batch script has started, but not to the script itself",
    ),
    Option("state", "t"),
    flag("usage"),
    Option("user", "u"),
    flag("verbose", "v"),
    flag("version", "V"),
    Option("wckey"),
)
_CHOOSING = frozenset(
    {"account", "jobname", "name", "me", "nodelist", "partition", "qos", "reservation", "state",
     "user", "wckey"}
)  # fmt: skip
_ID = re.compile(r"[0-9]+(_[0-9]+|_\[[0-9,:%-]+\]|\+[0-9]+)?")
_UNKNOWN = "Invalid job id specified"
_SCRIPT = f"{BATCH}-0"
"""The member that runs a batch script."""


def scancel(words: Sequence[str]) -> None:
    """End jobs or, with --signal, send a signal to running jobs."""
    asked, ids = read("scancel", SCANCEL, words, intermixed=True)
    asked = from_environment("SCANCEL_", SCANCEL, os.environ) | asked
    number = _signal(asked)
    if not ids and not asked.keys() & _CHOOSING:
        refuse("scancel", "No job identification provided")
    flat = [one for word in ids for one in parts(word)]
    if step := next((one for one in flat if "." in one), ""):
        refuse(
            "scancel", f"{step}: a step ends with its srun; give its job, {step.partition('.')[0]}"
        )
    try:
        check_words({name: asked[name] for name in ("clusters",) if name in asked})
        states = states_named(asked["state"]) if "state" in asked else set(st.JOB)
    except ValueError as error:
        refuse("scancel", str(error))
    jobs = jobs_wanted(flat, asked.get("jobname", asked.get("name")))
    code = _tell_unknown(flat, {job.name for job in jobs}, "verbose" in asked)
    _check_users(asked, jobs)
    if "nodelist" in asked:
        jobs = _on_nodes(jobs, asked["nodelist"])
    for job in jobs:
        waits_unnamed = number is not None and job.state == st.PENDING and not flat
        if not waits_unnamed and _is_meant(job, asked, states):
            code = _end(job, asked, flat, number) or code
    if code:
        raise Ended(code)


def _tell_unknown(named: Sequence[str], known: Collection[str], is_wordy: bool) -> int:
    """Report unknown names. Returns the exit code. An unknown number is not an error, because its
    job may be forgotten. Any other unknown name is an error.
    """
    unknown = [one for one in named if one.partition("_")[0] not in known]
    for one in unknown if is_wordy else ():
        say(f"scancel: Terminating job {one}", err=True)
        say(f"scancel: error: Kill job error on job id {one}: {_UNKNOWN}", err=True)
    missing = [one for one in unknown if not _ID.fullmatch(one)]
    if missing:
        say(f"scancel: error: Invalid job id {missing[0]}", err=True)
    return FAILED if missing else 0


def _end(job: JobInfo, asked: Mapping[str, str], named: Sequence[str], number: int | None) -> int:
    """End a job or its named array tasks, or send the signal to them. Returns the exit code."""
    is_wordy = "verbose" in asked
    if job.state in st.FINISHED:
        return _on_ended(job, named, number, is_wordy)
    code = 0
    for name in _names(job, named):
        if is_wordy:
            what = "Terminating" if number is None else f"Signal {number} to"
            say(f"scancel: {what} job {slurm_id(name.partition('/')[2])}", err=True)
        try:
            if number is None:
                ask(address(), CommandJob(name, "cancel"))
            else:
                _send(job, name, number, asked)
        except Ended as refused:  # the reason is printed
            code = code or refused.code
    return code


def _on_ended(job: JobInfo, named: Sequence[str], number: int | None, is_wordy: bool) -> int:
    """Return the exit code for a job that is already over. Such a job is an error only with
    --signal.
    """
    if not any(one.partition("_")[0] == job.name for one in named):
        return 0
    if number is None and not is_wordy:
        return 0
    if number is None:
        say(f"scancel: Terminating job {job.name}", err=True)
    reason = _UNKNOWN if number is not None else "Job/step already completing or completed"
    say(f"scancel: error: Kill job error on job id {job.name}: {reason}", err=True)
    return 0 if number is None else FAILED


def _check_users(asked: Mapping[str, str], jobs: Sequence[JobInfo]) -> None:
    known = {user_of(job) for job in jobs}
    for user in sorted(words_of(asked, "user")):
        if user not in known and account_of(user) is None and not user.isdecimal():
            refuse("scancel", f"Invalid user name: {user}")


def _on_nodes(jobs: Sequence[JobInfo], written: str) -> list[JobInfo]:
    wanted = hosts_named("scancel", written)
    shown = Shown({"nodelist"})
    return [
        job
        for job in jobs
        if job.state not in st.FINISHED
        and not wanted.isdisjoint(shown.row(job)["nodelist"].split(","))
    ]


def _signal(asked: Mapping[str, str]) -> int | None:
    """Return the signal to send to jobs; None if the jobs are to be ended."""
    if "batch" in asked and "full" in asked:
        refuse("scancel", "--batch and --full cannot be combined")
    if "signal" not in asked:
        if "batch" in asked:
            refuse("scancel", "--batch: give the signal for the script with --signal")
        return None
    try:
        number = signal_number(asked["signal"])
    except ValueError as error:
        refuse("scancel", f"--signal={asked['signal']}: {error}")
    return None if number == signal.SIGKILL and "batch" not in asked else number


def _is_meant(job: JobInfo, asked: Mapping[str, str], states: Collection[str]) -> bool:
    users = user_names(words_of(asked, "user")) | ({getpass.getuser()} if "me" in asked else set())
    kept = ("account", "qos", "wckey")
    notes = {option: job.annotations.get(f"{NOTE}{option}") for option in kept}
    return (
        job.state in states
        and (not users or user_of(job) in users)
        and asked.get("partition") in (None, job.queue)
        and asked.get("reservation") in (None, job.reservation)
        and all(asked.get(option) in (None, has) for option, has in notes.items())
    )


def _names(job: JobInfo, ids: Sequence[str]) -> list[str]:
    """Return the names of a job's named array tasks (12_7, 12_[1-3]), or else the job's name."""
    elements = [array_task_or_job(one) for one in ids if one.startswith(f"{job.name}_")]
    names = [job.name] if job.name in ids or not elements else elements
    return [f"{job.namespace}/{name}" for name in names]


def _send(job: JobInfo, name: str, number: int, asked: Mapping[str, str]) -> None:
    """Send a signal as Slurm does: to a job's steps; with --full, to its batch script, too; with
    --batch, only to the batch script.
    """
    is_ours, has_script = f"{NOTE}name" in job.annotations, f"{NOTE}script" in job.annotations
    if "batch" in asked and is_ours and not has_script:
        refuse("scancel", f"--batch: job {job.name} has no batch script")
    script = _SCRIPT if is_ours else ""
    if "full" in asked and not is_ours:
        ask(address(), SignalJob(name, number, "all"))
    elif "batch" not in asked:
        ask(address(), SignalJob(name, number))
    if "batch" in asked or ("full" in asked and has_script):
        ask(address(), SignalJob(name, number, "command", script))
