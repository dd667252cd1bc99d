"""`scontrol` and `seff`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NoReturn

from phalanx.adapters.slurm.commands import reservations
from phalanx.adapters.slurm.commands.hostlists import expanded
from phalanx.adapters.slurm.commands.numbers import array_task_or_job
from phalanx.adapters.slurm.commands.rows import Shown, jobs_wanted
from phalanx.adapters.slurm.commands.sinfo import state_of
from phalanx.adapters.slurm.commands.usage import address, read, refuse
from phalanx.adapters.slurm.options import Option, flag
from phalanx.cli.reach import ask
from phalanx.cli.table import say
from phalanx.manifests.times import read_length
from phalanx.model.rows.work import JobInfo
from phalanx.protocol.requests.cluster import GetStatus
from phalanx.protocol.requests.jobs import Command, CommandJob, UpdateJob
from phalanx.protocol.requests.queues import ListQueues

SEFF = (
    Option("clusters", "M", refused="there is one cluster"),
    flag("help", "h"),
    flag("version", "V"),
)
SCONTROL = (
    flag("all", "a"),
    flag("details", "d"),
    flag("help", "h"),
    flag("json", refused="squeue --json tells of jobs, sinfo --json of nodes"),
    flag("oneliner", "o"),
    flag("quiet", "Q"),
    flag("version", "V"),
)
_SHOWN = ("hostnames", "hostlist", "job", "node", "partition", "reservation")
_REFUSED = {
    "requeuehold": "use requeue, then hold",
    "reconfigure": "`phalanx queue` changes queues",
    "ping": "`phalanx status` says how the head is",
    "reboot": "nodes are not rebooted",
    "shutdown": "`phalanx stop` ends the daemons of a machine",
    "top": "use update JobId=N Priority=M",
    "wait_job": "srun and salloc wait",
    "write": "`phalanx submit` takes files",
}
_COMMANDS: dict[str, Command] = {
    "hold": "hold", "release": "release", "suspend": "suspend", "resume": "resume",
    "requeue": "requeue",
}  # fmt: skip


_OF_RESERVATIONS = {"create": reservations.create, "delete": reservations.delete}


def scontrol(words: Sequence[str]) -> None:
    """Show jobs, nodes, partitions and reservations; hold, release, suspend, resume, requeue and
    update jobs; create, update and delete reservations."""
    asked, rest = read("scontrol", SCONTROL, words, intermixed=True)
    if not rest:
        refuse(
            "scontrol",
            "give what to do: show, hold, release, suspend, resume, requeue, update, create",
        )
    what, *operands = rest
    if what == "show":
        _show(operands, "oneliner" in asked)
    elif what in _COMMANDS:
        for name in [one for word in operands for one in word.split(",")] or [_missing(what)]:
            ask(address(), CommandJob(array_task_or_job(name), _COMMANDS[what]))
    elif what == "update" and any(w.lower().startswith("reservation") for w in operands):
        reservations.update(operands)
    elif what == "update":
        _update(operands)
    elif what in _OF_RESERVATIONS:
        _OF_RESERVATIONS[what](operands)
    elif what == "version":
        read("scontrol", SCONTROL, ["--version"])
    else:
        refuse("scontrol", f"{what} is not there: {_REFUSED.get(what, 'there is no such command')}")


def _missing(what: str) -> NoReturn:
    refuse("scontrol", f"{what}: give numbers of jobs")


def _show(operands: Sequence[str], on_one_line: bool) -> None:
    what, *names = operands or [""]
    kind = next((one for one in _SHOWN if what and (one.startswith(what) or one == what[:-1])), "")
    if kind == "hostnames":
        for word in names or [os.environ.get("SLURM_JOB_NODELIST", "")]:
            for host in filter(None, expanded(word)):
                say(host)
    elif kind == "hostlist":
        say(",".join(filter(None, ",".join(names).split(","))))
    elif kind == "job":
        jobs = jobs_wanted(names, None)
        if names and not jobs:
            refuse("scontrol", "Invalid job id specified")
        shown = Shown()
        _say_records([_job(job, shown) for job in jobs], on_one_line)
    elif kind == "node":
        rows = ask(address(), GetStatus()).nodes
        _say_records(
            [
                [
                    f"NodeName={row.host} NodeHostName={row.hostname} NodeId={row.node_id[:12]}",
                    f"CPUAlloc={row.total.get('CPU', 0) - row.available.get('CPU', 0):g} "
                    f"CPUTot={row.total.get('CPU', 0):g}",
                    f"Gres=gpu:{row.total.get('GPU', 0):g}",
                    f"RealMemory={int(row.total.get('memory', 0)) >> 20}",
                    f"State={state_of(row).upper()} Reason={row.reason or 'none'}",
                ]
                for row in rows
                if not names or row.host in names or row.hostname in names
            ],
            on_one_line,
        )
    elif kind == "reservation":
        _say_records(reservations.records(names), on_one_line)
    elif kind == "partition":
        queues = [q for q in ask(address(), ListQueues()) if not names or q.name in names]
        _say_records(
            [
                [f"PartitionName={q.name}", f"State={'UP' if q.state == 'Open' else 'DOWN'}"]
                for q in queues
            ],
            on_one_line,
        )
    else:
        refuse("scontrol", f"show {what}: there are {', '.join(_SHOWN)}")


def _job(job: JobInfo, shown: Shown) -> list[str]:
    row = shown.row(job, needs_places=True)
    return [
        f"JobId={row['id']} JobName={row['name']}",
        f"UserId={row['user']} Account={row['account'] or '(null)'} WCKey={row['wckey']}",
        f"Priority={row['priority']} Nice=0",
        f"JobState={row['state']} Reason={row['reason']} Dependency=(null)",
        f"Requeue=1 Restarts={row['restarts']} BatchFlag=1 ExitCode={row['code']}",
        f"RunTime={row['elapsed']} TimeLimit={row['timelimit']} TimeMin=N/A",
        f"SubmitTime={row['submit']} EligibleTime={row['submit']}",
        f"StartTime={row['start']} EndTime={row['end']} Deadline=N/A",
        f"Partition={row['partition']} NodeList={row['nodelist'] or '(null)'}",
        f"NumNodes={row['nodes']} NumCPUs={row['cpus']} NumTasks={row['tasks']}",
        f"WorkDir={row['directory']} Comment={row['comment']}",
    ]


def _say_records(records: Sequence[Sequence[str]], on_one_line: bool) -> None:
    for record in records:
        say((" " if on_one_line else "\n   ").join(record) + ("" if on_one_line else "\n"))


_UPDATES = ("jobid", "partition", "priority", "timelimit")


def _update(operands: Sequence[str]) -> None:
    pairs = {}
    for word in operands:
        name, is_set, value = word.partition("=")
        if not is_set or name.lower() not in _UPDATES:
            refuse("scontrol", f"update {word}: of a job JobId, Partition, Priority, TimeLimit")
        pairs[name.lower()] = value
    if "jobid" not in pairs:
        refuse("scontrol", "update: give JobId=N; nodes are changed by `phalanx drain`")
    try:
        limit = read_length(pairs["timelimit"]) if "timelimit" in pairs else None
        priority = int(pairs["priority"]) if "priority" in pairs else None
    except ValueError as error:
        refuse("scontrol", f"update: {error}")
    ask(address(), UpdateJob(pairs["jobid"], pairs.get("partition"), priority, limit))


def seff(words: Sequence[str]) -> None:
    """How well jobs that have ended used what they held."""
    from phalanx.cli.accounting_view import efficiency_text
    from phalanx.cli.history import efficiency_of

    _, names = read("seff", SEFF, words, intermixed=True)
    if not names:
        refuse("seff", "it takes the id of a job")
    for name in names:
        found, is_cut = efficiency_of(array_task_or_job(name), address())
        if found is None:
            refuse("seff", f"nothing of a job {name} has ended yet that the history knows")
        say(efficiency_text(found, is_cut))
