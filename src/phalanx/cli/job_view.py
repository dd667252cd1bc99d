"""Text of jobs, queues, flows, cron jobs and hypernodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from phalanx.cli.table import safe, table
from phalanx.cli.times import moment
from phalanx.model.jobs.timing import LONGEST_S
from phalanx.model.readable import amount, duration
from phalanx.model.rows.cluster import HyperNodeInfo
from phalanx.model.rows.events import EventInfo
from phalanx.model.rows.work import (
    CronInfo,
    FlowInfo,
    JobDescription,
    JobInfo,
    TransitionInfo,
)
from phalanx.observe.events import details, subject
from phalanx.observe.job_times import ran_s

_FLOWS = ("NAME", "STATE", "AGE", "STEPS", "REASON")
_HYPERNODES = ("NAME", "TIER", "TIER NAME", "PARENT", "NODES")
_CRONS = ("NAME", "SCHEDULE", "STATE", "LAST SCHEDULED", "LAST SUCCESS", "ACTIVE")
_MEMBERS = ("MEMBER", "STATE", "ATTEMPT", "NODE", "DEVICES", "EXIT", "REASON")
_RANKS = {
    "ATTEMPT": 4, "EXIT": 3, "DEVICES": 2, "NODE": 1,
    "AGE": 2, "STEPS": 1,
    "LAST SUCCESS": 3, "LAST SCHEDULED": 2, "ACTIVE": 1,
    "TIER NAME": 3, "PARENT": 2,
}  # fmt: skip
"""The ranks of the columns that narrow terminals leave out. The column with the highest rank is
left out first.
"""
WELL = ("Completed", "Succeed")
"""The states of a job and of a flow that completed."""


def how_it_ended(kind: str, name: tuple[str, str], state: str, reason: str) -> str:
    """Return a line about a job or flow that ended without completing. `name`: (namespace,
    name).
    """
    shown = "/".join(name).removeprefix("default/")
    return f"{kind.lower()} {shown} is {state}: {reason or 'no reason is known'}"


def job_text(
    job: JobDescription, events: Sequence[EventInfo], name: Callable[[str], str] = str
) -> str:
    """Return the text of `phalanx job`. `events`: events about the places of the job's members.
    `name` returns the display name of a node.
    """
    lines = [
        safe(f"{_full_name(job)} of queue {job.queue}, priority {job.priority}: {job.state}")
        + (f" ({safe(job.reason)})" if job.reason else ""),
        _life(job),
    ]
    lines += [safe(f"array {job.array}")] if job.array else []
    lines += [safe(f"after {job.after}")] if job.after else []
    lines += _time_lines(job)
    if job.ports:
        lines.append(f"ports {', '.join(map(str, job.ports))}")
    lines += _commands(job)
    rows = [
        [
            member.name,
            member.state,
            str(member.attempt),
            name(member.node) if member.node else "",
            " ".join(f"{n}:{','.join(map(str, d))}" for n, d in member.devices.items()),
            "" if member.exit_code is None else str(member.exit_code),
            member.reason,
        ]
        for member in job.members
    ]
    said = [(one.at, f"{_change(one)}  {one.reason}") for one in job.history]
    uid = f"{job.namespace}/{job.name}"
    said += [(one.at, _place_text(one, uid)) for one in events]
    history = [safe(f"{moment(at)}  {text}") for at, text in sorted(said, key=lambda one: one[0])]
    shown = f"`phalanx jobs {_full_name(job)}` lists its array tasks." if job.array else ""
    return "\n".join([*lines, "", safe(shown) or _table(_MEMBERS, rows), "", *history])


def _life(job: JobDescription) -> str:
    """Return a line about the job's beginning and end, its GPUs, and its retries, if it has any."""
    said = [f"submitted {moment(job.submitted)}"]
    said += [f"started {moment(job.started)}"] if job.started is not None else []
    said += [f"finished {moment(job.finished)}"] if job.finished is not None else []
    if job.gpus:
        said.append(f"{amount(job.gpus)} GPU{' for each array task' if job.array else ''}")
    if job.retries:
        said.append("1 retry" if job.retries == 1 else f"{job.retries} retries")
    said += [f"preempted {_times(job.preempted)}"] if job.preempted else []
    return ", ".join(said)


def _commands(job: JobDescription) -> list[str]:
    """Return a line with the command of each role."""
    said = []
    for role in job.roles:
        of = "command"
        if len(job.roles) > 1:
            of += f" of {role.name}, {role.replicas} member{'s' if role.replicas != 1 else ''}"
        said.append(safe(f"{of}: {role.short_command or 'none'}"))
    return said


def _change(one: TransitionInfo) -> str:
    return f"{one.old} -> {one.new}" if one.old else one.new


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _place_text(event: EventInfo, uid: str) -> str:
    if event.job == uid:
        return f"{event.kind}  {details(event)}"
    return f"got the places of {subject(event)}: {event.members} members were {event.kind}"


def _time_lines(job: JobDescription) -> list[str]:
    """Return lines about a job's times, its reservation and its licenses, if it has any."""
    limit = "" if job.time_limit_s is None else length(job.time_limit_s)
    said = []
    if job.array and job.started is not None:
        said.append(f"ran {length(ran_s(job))}")
    if limit and (job.array or not (job.ran_s or job.running)):
        said.append(f"time limit {limit}{' for each array task' if job.array else ''}")
    elif limit or job.restarts:
        said.append(f"ran {length(job.ran_s)}{f' of {limit}' if limit else ''}")
    if job.ends is not None:
        said.append(f"ends {moment(job.ends)} at the latest")
    if job.restarts:
        said.append(f"ran {_times(job.restarts)} before")
    said += [f"begins {moment(job.begins)} at the earliest"] if job.begins is not None else []
    said += [f"deadline {moment(job.deadline)}"] if job.deadline is not None else []
    inside = [f"reservation {job.reservation}"] if job.reservation else []
    counted = ", ".join(f"{name}:{count}" for name, count in job.licenses.items())
    inside += [f"licenses {counted}"] if counted else []
    return [safe(", ".join(line)) for line in (said, inside) if line]


def flows_text(rows: Sequence[FlowInfo], now: float) -> str:
    """Return a table with one row per flow. `now`: seconds since the epoch."""
    if not rows:
        return "No flows."
    lines = [
        [
            _full_name(row),
            row.state,
            duration(now - row.submitted),
            " ".join(f"{name}:{state or '-'}" for name, state in row.steps.items()),
            row.reason,
        ]
        for row in rows
    ]
    return _table(_FLOWS, lines)


def crons_text(rows: Sequence[CronInfo]) -> str:
    """Return a table with one row per cron job."""
    if not rows:
        return "No cron jobs."
    lines = [
        [
            _full_name(row),
            row.schedule,
            row.state,
            moment(row.last_scheduled),
            moment(row.last_success),
            " ".join(row.active) or "-",
        ]
        for row in rows
    ]
    return _table(_CRONS, lines)


def hypernodes_text(rows: Sequence[HyperNodeInfo], name: Callable[[str], str] = str) -> str:
    """Return a table with one row per hypernode. `name` returns the display name of a node."""
    if not rows:
        return "No nodes."
    lines = [
        [
            row.name,
            str(row.tier),
            row.tier_name,
            row.parent,
            " ".join(map(name, row.nodes)),
        ]
        for row in rows
    ]
    return _table(_HYPERNODES, lines)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return table(head, rows, ranks=_RANKS)


def length(seconds: float | None) -> str:
    """Return a duration in the form of listings; "" for no limit."""
    if seconds is None:
        return ""
    if not 0 <= seconds <= LONGEST_S:  # no head sends such a number, but a damaged answer may
        return f"{seconds:g}s"
    return duration(seconds)


def _full_name(row: JobInfo | FlowInfo | CronInfo) -> str:
    return row.name if row.namespace == "default" else f"{row.namespace}/{row.name}"
