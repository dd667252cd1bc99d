"""The commands `scontrol` and `seff`."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

from phalanx.adapters.slurm.commands import node_states, partition_states, reservations
from phalanx.adapters.slurm.commands.array_rows import with_array_tasks
from phalanx.adapters.slurm.commands.hostlists import expanded
from phalanx.adapters.slurm.commands.numbers import array_task_or_job, slurm_id
from phalanx.adapters.slurm.commands.records import (
    Record,
    configuration,
    job_record,
    node_record,
    queue_record,
    step_record,
)
from phalanx.adapters.slurm.commands.rows import Shown, jobs_wanted, user_of
from phalanx.adapters.slurm.commands.step_rows import by_job, running_steps, step_row, steps_of
from phalanx.adapters.slurm.commands.usage import address, read, refuse
from phalanx.adapters.slurm.commands.users import fields_of
from phalanx.adapters.slurm.marks import CLUSTER, NOTE, check_words
from phalanx.adapters.slurm.options import Option, flag, ignored, parts
from phalanx.adapters.slurm.preemption import preempt_mode
from phalanx.adapters.slurm.times import slurm_length
from phalanx.cli.ending import Ended
from phalanx.cli.reach import FAILED, ask
from phalanx.cli.table import say
from phalanx.manifests.times import read_length
from phalanx.model.rows.cluster import current_nodes
from phalanx.model.rows.work import JobInfo, QueueInfo
from phalanx.protocol.requests.cluster import GetStatus
from phalanx.protocol.requests.gangs import GetRules
from phalanx.protocol.requests.jobs import Command, CommandJob, GetJob, UpdateJob
from phalanx.protocol.requests.queues import ListQueues

SEFF = (
    Option("clusters", "M", refused="there is one cluster"),
    flag("help", "h"),
    flag("version", "V"),
)
SCONTROL = (
    flag("all", "a"),
    Option("cluster", note="only the value phalanx is accepted: there is one cluster"),
    Option("clusters", "M", note="only the value phalanx is accepted: there is one cluster"),
    flag("details", "d"),
    ignored("federation", "F", "there is one cluster", takes_value=False),
    ignored("future", note="there are no future nodes", takes_value=False),
    flag("help", "h"),
    ignored("hide", note="no partition is hidden", takes_value=False),
    flag("json", refused="use squeue --json for jobs, sinfo --json for nodes"),
    ignored("local", note="there is one cluster", takes_value=False),
    flag("oneliner", "o"),
    flag("quiet", "Q"),
    ignored("sibling", note="there is one cluster", takes_value=False),
    Option("uid", "u", refused="requests are always made as the user who runs scontrol"),
    flag("usage"),
    ignored("verbose", "v", "errors are always printed", takes_value=False),
    flag("version", "V"),
)
_SHOWN = (
    "config", "daemons", "hostnames", "hostlist", "hostlistsorted", "job", "licenses", "node",
    "partition", "reservation", "step", "topology",
)  # fmt: skip
_REFUSED = {
    "requeuehold": "use requeue, then hold",
    "reconfigure": "`phalanx queue` changes queues",
    "reboot": "nodes are not rebooted",
    "shutdown": "`phalanx stop` ends the daemons of a machine",
    "top": "use update JobId=N Priority=M",
    "wait_job": "srun and salloc wait",
    "write": "`phalanx submit` takes files",
}
_COMMANDS: dict[str, Command] = {
    "hold": "hold", "uhold": "hold", "release": "release", "suspend": "suspend",
    "resume": "resume", "requeue": "requeue",
}  # fmt: skip


_OF_RESERVATIONS = {"create": reservations.create, "delete": reservations.delete}
_OTHERS = {
    "reservation": reservations.update,
    "nodename=": node_states.update,
    "partitionname=": partition_states.update,
}
"""The functions by which `update` changes other things than jobs, by the beginning of an operand.
"""


def scontrol(words: Sequence[str]) -> None:
    """Show jobs, nodes, partitions and reservations; hold, release, suspend, resume, requeue and
    update jobs; drain and resume nodes; open and drain partitions; create, update and delete
    reservations."""
    asked, rest = read("scontrol", SCONTROL, words, intermixed=True)
    try:
        check_words({"clusters": asked.get("clusters", asked.get("cluster", CLUSTER))})
    except ValueError as error:
        refuse("scontrol", str(error))
    if not rest:
        refuse(
            "scontrol",
            "give a subcommand: show, hold, release, suspend, resume, requeue, update, create",
        )
    what, *operands = rest
    if what == "show":
        _show(operands, "oneliner" in asked, "details" in asked)
    elif what in _COMMANDS:
        for name in [one for word in operands for one in parts(word)] or [_missing(what)]:
            ask(address(), CommandJob(array_task_or_job(name), _COMMANDS[what]))
    elif what == "update":
        lower = [word.lower() for word in operands]
        found = (
            update for word, update in _OTHERS.items() if any(w.startswith(word) for w in lower)
        )
        next(found, _update)(operands)
    elif what in _OF_RESERVATIONS:
        _OF_RESERVATIONS[what](operands)
    elif what == "ping":
        rows = current_nodes(ask(address(), GetStatus()).nodes)
        host = next((node.hostname for node in rows), "localhost")
        say(f"Slurmctld(primary) at {host} is UP")
    elif what == "version":
        read("scontrol", SCONTROL, ["--version"])
    else:
        refuse(
            "scontrol", f"{what} is not supported: {_REFUSED.get(what, 'there is no such command')}"
        )


def _missing(what: str) -> NoReturn:
    refuse("scontrol", f"{what}: give ids of jobs")


def _show(operands: Sequence[str], on_one_line: bool, has_details: bool) -> None:
    what, *names = operands or [""]
    what = "job" if what.lower() == "jobid" else what
    names = [
        one.partition("=")[2] if one.lower().startswith(f"{what}id=") else one
        for name in names
        for one in parts(name)
    ]
    plural = what.lower().removesuffix("s")
    kind = next((one for one in _SHOWN if what and one.startswith((what.lower(), plural))), "")
    if kind not in _KINDS:
        refuse("scontrol", f"show {what}: the kinds are {', '.join(_SHOWN)}")
    found = _jobs(names, has_details) if kind == "job" else _KINDS[kind](names)
    for record in found:
        if len(record) == 1 or kind == "config":
            say("\n".join(record))
        elif on_one_line:
            say(" ".join(record) + " ")
        else:
            say("\n   ".join(record) + "\n")


def _hostnames(names: Sequence[str]) -> list[Record]:
    words = names or [os.environ.get("SLURM_JOB_NODELIST", "")]
    return [[host] for word in words for host in expanded(word) if host]


def _hostlist(names: Sequence[str]) -> list[Record]:
    return [[",".join(filter(None, ",".join(names).split(",")))]]


def _hostlist_sorted(names: Sequence[str]) -> list[Record]:
    return [[",".join(sorted(dict.fromkeys(expanded(",".join(names)))))]]


def _jobs(names: Sequence[str], has_details: bool = False) -> list[Record]:
    jobs = with_array_tasks(jobs_wanted(names, None), names, one_each=False)
    jobs = [job for job in jobs if not names or _is_named(job, names)]
    if names and not jobs:
        _unknown("slurm_load_jobs error: Invalid job id specified")
    shown = Shown()
    records = [job_record(job, shown.row(job), has_details) for job in jobs]
    return records or [["No jobs in the system"]]


def _is_named(job: JobInfo, names: Sequence[str]) -> bool:
    own = slurm_id(job.name)
    return own in names or own.partition("_")[0] in names


def _nodes(names: Sequence[str]) -> list[Record]:
    rows = current_nodes(ask(address(), GetStatus()).nodes)
    wanted = [one for word in names for one in expanded(word)]
    found = [row for row in rows if not wanted or {row.host, row.hostname, row.name} & set(wanted)]
    if wanted and not found:
        _unknown(f"Node {wanted[0]} not found")
    queues = [queue.name for queue in _queues()]
    return [node_record(row, queues) for row in found]


def _partitions(names: Sequence[str]) -> list[Record]:
    found = [queue for queue in _queues() if not names or queue.name in names]
    if names and not found:
        _unknown(f"Partition {names[0]} not found")
    nodes = [node for node in ask(address(), GetStatus()).nodes if node.state != "DEAD"]
    mode = preempt_mode(ask(address(), GetRules()).actions)
    return [queue_record(queue, nodes, mode) for queue in found]


def _queues() -> list[QueueInfo]:
    return [queue for queue in ask(address(), ListQueues()) if queue.name != "root"]


def _steps(names: Sequence[str]) -> list[Record]:
    found, now = by_job(running_steps()), time.time()
    records = []
    for job in jobs_wanted(names, None):
        uid = fields_of(user_of(job)).get("uid", "")
        for step in steps_of(found, (job.namespace, job.name, job.recorded_as), ()):
            row = step_row(step, now)
            if not any("." in name for name in names) or row["id"] in names:
                records.append(step_record(row, job, uid))
    return records or [["No job steps in the system"]]


def _config(_: Sequence[str]) -> list[Record]:
    rows = current_nodes(ask(address(), GetStatus()).nodes)
    host = next((node.hostname for node in rows), "localhost")
    mode = preempt_mode(ask(address(), GetRules()).actions)
    return [configuration(_queues(), host, os.environ.get("PHALANX_ADDRESS", "(null)"), mode)]


def _licenses(_: Sequence[str]) -> list[Record]:
    return [["No licenses configured in Slurm: `phalanx licenses` lists those of the cluster."]]


_KINDS: dict[str, Callable[[Sequence[str]], list[Record]]] = {
    "config": _config,
    "daemons": lambda _: [["slurmctld slurmd"]],
    "hostnames": _hostnames,
    "hostlist": _hostlist,
    "hostlistsorted": _hostlist_sorted,
    "job": _jobs,
    "licenses": _licenses,
    "node": _nodes,
    "partition": _partitions,
    "reservation": reservations.records,
    "step": _steps,
    "topology": lambda _: [["No topology information available"]],
}


def _unknown(text: str) -> NoReturn:
    say(text, err=True)
    raise Ended(FAILED)


_NOTES = {"jobname": "name", "name": "name", "comment": "comment", "nice": "nice", "wckey": "wckey"}
"""The notes of a job that arguments NAME=VALUE set, by NAME in lower case."""
_UPDATES = ("jobid", "job", "partition", "priority", "timelimit", *_NOTES)


def _update(operands: Sequence[str]) -> None:
    pairs = {}
    for word in operands:
        name, is_set, value = word.partition("=")
        if not is_set or name.lower() not in _UPDATES:
            there = "Partition, Priority, TimeLimit, Nice, JobName, Comment, WCKey"
            refuse("scontrol", f"update {word}: only {there} can be changed")
        pairs["jobid" if name.lower() == "job" else name.lower()] = value
    if "jobid" not in pairs:
        refuse(
            "scontrol",
            "update: give JobId=N, NodeName=NAME, PartitionName=NAME or ReservationName=NAME",
        )
    for name in pairs["jobid"].split(","):
        found = ask(address(), GetJob(array_task_or_job(name)))
        try:
            limit, priority = _limit(pairs, found.time_limit_s), _priority(pairs, found)
        except ValueError as error:
            refuse("scontrol", f"update: {error}")
        notes = {NOTE + note: pairs[one] for one, note in _NOTES.items() if one in pairs}
        change = UpdateJob(
            array_task_or_job(name), pairs.get("partition"), priority, limit, annotations=notes
        )
        ask(address(), change)


def _limit(pairs: Mapping[str, str], now_s: float | None) -> float | None:
    """Return the new time limit. `+10` and `-10` are added to the present limit. Raises
    ValueError.
    """
    given = pairs.get("timelimit")
    if given is None:
        return None
    if given[:1] in ("+", "-") and given[1:]:
        change = slurm_length(given[1:]) or 0.0
        if now_s is None:
            raise ValueError(f"TimeLimit={given}: the job has no limit")
        return now_s + (change if given[0] == "+" else -change)
    try:
        return slurm_length(given) or 0.0
    except ValueError:
        return read_length(given)


def _priority(pairs: Mapping[str, str], job: JobInfo) -> int | None:
    if "priority" in pairs:
        return int(pairs["priority"])
    if "nice" not in pairs:
        return None
    before = int(job.annotations.get(f"{NOTE}nice") or 0)
    return job.priority + before - int(pairs["nice"])


def seff(words: Sequence[str]) -> None:
    """Show how well finished jobs used the resources that they held."""
    from phalanx.cli.accounting_view import efficiency_text
    from phalanx.cli.history import efficiency_of

    _, names = read("seff", SEFF, words, intermixed=True)
    if not names:
        refuse("seff", "give the id of a job")
    for name in names:
        found, is_cut = efficiency_of(array_task_or_job(name), address())
        if found is None:
            refuse("seff", f"the history has no finished attempt of a job {name}")
        say(efficiency_text(found, is_cut))
