"""`scancel`: ends jobs, and sends signals to those that run."""

from __future__ import annotations

import getpass
import signal
from collections.abc import Collection, Mapping, Sequence

import typer

from phalanx.adapters.slurm.commands.numbers import array_task_or_job
from phalanx.adapters.slurm.commands.rows import jobs_wanted, user_of
from phalanx.adapters.slurm.commands.usage import address, read, refuse
from phalanx.adapters.slurm.options import Option, flag
from phalanx.adapters.slurm.request import BATCH, NOTE
from phalanx.adapters.slurm.states import states_named
from phalanx.api.signals import signal_number
from phalanx.cli.reach import FAILED, ask
from phalanx.cli.table import say
from phalanx.model.jobs import states as st
from phalanx.model.rows.work import JobInfo
from phalanx.protocol.requests.jobs import CommandJob
from phalanx.protocol.requests.steps import SignalJob

SCANCEL = (
    Option("account", "A"),
    flag("batch", "b", note="with --signal"),
    flag(
        "full", "f", note="the script and the steps; what else it has started where there are none"
    ),
    flag("help", "h"),
    flag("interactive", "i", refused="it asks nothing"),
    Option("jobname", "n"),
    Option("name", note="as --jobname"),
    flag("me"),
    Option("partition", "p"),
    flag("quiet", "Q"),
    Option("signal", "s", note="of a job without steps also to what its script has started"),
    Option("state", "t"),
    Option("user", "u"),
    flag("verbose", "v", refused="it says what is wrong without"),
    flag("version", "V"),
)
_SCRIPT = f"{BATCH}-0"
"""The member that runs a batch script."""


def scancel(words: Sequence[str]) -> None:
    """End jobs, or with --signal send those that run a signal."""
    asked, ids = read("scancel", SCANCEL, words, intermixed=True)
    number = _signal(asked)
    chooses = asked.keys() & {"account", "jobname", "name", "me", "partition", "state", "user"}
    if not ids and not chooses:
        refuse("scancel", "give numbers of jobs, or --user, --name, --partition, --state, --me")
    flat = [one for word in ids for one in word.split(",") if one]
    if step := next((one for one in flat if "." in one), ""):
        refuse(
            "scancel", f"{step}: a step ends with its srun; give its job, {step.partition('.')[0]}"
        )
    try:
        states = states_named(asked["state"]) if "state" in asked else set(st.JOB)
    except ValueError as error:
        refuse("scancel", str(error))
    jobs = jobs_wanted(flat, asked.get("jobname", asked.get("name")))
    known = {job.name for job in jobs}
    missing = [one for one in flat if one.partition("_")[0] not in known]
    if missing and "quiet" not in asked and not chooses:
        say(f"scancel: error: Invalid job id {missing[0]}", err=True)
    code = FAILED if missing and not chooses else 0
    for job in jobs:
        waits_unnamed = number is not None and job.state == st.PENDING and not flat
        if waits_unnamed or not _is_meant(job, asked, states):
            continue
        for name in _names(job, flat):
            try:
                if number is None:
                    ask(address(), CommandJob(name, "cancel"))
                else:
                    _send(job, name, number, asked)
            except typer.Exit as refused:  # the reason is printed
                code = code or refused.exit_code
    if code:
        raise typer.Exit(code)


def _signal(asked: Mapping[str, str]) -> int | None:
    """Which goes to jobs that go on; None: they are ended."""
    if "batch" in asked and "full" in asked:
        refuse("scancel", "--batch and --full exclude each other")
    if "signal" not in asked:
        if "batch" in asked:
            refuse("scancel", "--batch: give the --signal that the script is to get")
        return None
    try:
        number = signal_number(asked["signal"])
    except ValueError as error:
        refuse("scancel", f"--signal={asked['signal']}: {error}")
    return None if number == signal.SIGKILL and "batch" not in asked else number


def _is_meant(job: JobInfo, asked: Mapping[str, str], states: Collection[str]) -> bool:
    users = set(filter(None, asked.get("user", "").split(",")))
    users |= {getpass.getuser()} if "me" in asked else set()
    return (
        job.state in states
        and job.state not in st.FINISHED
        and (not users or user_of(job) in users)
        and asked.get("partition") in (None, job.queue)
        and asked.get("account") in (None, job.annotations.get(f"{NOTE}account"))
    )


def _names(job: JobInfo, ids: Sequence[str]) -> list[str]:
    """The job, or those of its elements that were named: 12_7, 12_[1-3]."""
    elements = [array_task_or_job(one) for one in ids if one.startswith(f"{job.name}_")]
    names = [job.name] if job.name in ids or not elements else elements
    return [f"{job.namespace}/{name}" for name in names]


def _send(job: JobInfo, name: str, number: int, asked: Mapping[str, str]) -> None:
    """As Slurm: to the steps, with --full to the batch script, too, with --batch to that alone."""
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
