"""`phalanx submit`, `run`, `jobs`, `job`, `flows`, ...: work of a running cluster."""

from __future__ import annotations

import json as json_module
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from phalanx.api.jobs import SETTLED
from phalanx.cli.allocation import cancelled_by_interrupt, wait_until_running
from phalanx.cli.interactive import run_at_terminal
from phalanx.cli.job_output import JobOutput, follow
from phalanx.cli.job_view import (
    crons_text,
    elements_text,
    flows_text,
    how_it_ended,
    hypernodes_text,
    job_text,
    jobs_text,
)
from phalanx.cli.new_names import NewName
from phalanx.cli.reach import FAILED, USAGE, ask, fail
from phalanx.cli.table import say
from phalanx.model.jobs import states as st
from phalanx.model.jobs.spec import DEFAULT_GRACE_S, JobSpec
from phalanx.model.jobs.timing import DEFAULT_REQUEUES, Requeue
from phalanx.model.rows.row import Row
from phalanx.model.rows.work import AppliedInfo, JobDescription
from phalanx.observe.events import OF_PLACES, EventQuery
from phalanx.protocol.requests.events import ListEvents
from phalanx.protocol.requests.gangs import Explain, TakeSnapshot
from phalanx.protocol.requests.jobs import (
    GetJob,
    ListCrons,
    ListElements,
    ListFlows,
    ListHyperNodes,
    ListJobs,
)

_EVERY_S = 2.0
_FOLLOW_S = 0.1
_CLEAR = "\x1b[H\x1b[2J"
TIMED_OUT = 124
FLOW_SETTLED = ("Succeed", "Failed", "Terminating", "Deleted")
WELL = ("Completed", "Succeed")

Address = Annotated[
    str | None,
    typer.Option(help="HOST:PORT of the head, or ray:auto (PHALANX_ADDRESS, or the one here)."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]
Name = Annotated[str, typer.Argument(help="The job's name, or namespace/name.")]
Names = Annotated[list[str], typer.Argument(help="Names of jobs, or namespace/name.")]
Watch = Annotated[
    bool, typer.Option("--watch", "-w", help="Again every two seconds, until Ctrl-C.")
]
Wait = Annotated[bool, typer.Option("--wait", help="Until it is over; exit 1 unless it completed.")]
Queue = Annotated[str, typer.Option("--queue", "-q", help="The queue that it waits in.")]


def submit(
    files: Annotated[
        list[Path], typer.Argument(help="Manifests in YAML or JSON; '-' reads the input.")
    ],
    wait: Wait = False,
    address: Address = None,
    json: Json = False,
) -> None:
    """Submit manifests: jobs, queues, flows, cron jobs, templates, priority classes, HyperNodes,
    reservations.

    --wait waits for jobs and flows: a cron job is never over. Exit 1 when one is wrong or refused,
    5 when the cluster could never hold it.
    """
    from phalanx.api.jobs import manifest_objects, new_request
    from phalanx.manifests.findings import ManifestError

    objects = []
    for file in files:  # all are read before any is submitted
        try:
            text = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
            found, warnings = manifest_objects(text, str(file))
        except OSError as error:
            fail(f"{file}: {error.strerror}", USAGE)
        except ManifestError as error:
            fail(str(error))
        objects += found
        for warning in warnings:
            say(f"warning: {warning}", err=True)
    done = ask(address, new_request(objects))
    if json:
        typer.echo(rows_json(done))
    else:
        for one in done:
            say(f"{one.kind} {one.name} {one.done}")
    states = (
        [_await(address, one) for one in done if one.kind in ("Job", "JobFlow")] if wait else []
    )
    if any(state not in WELL for state in states):
        raise typer.Exit(FAILED)


def _await(address: str | None, one: AppliedInfo) -> str:
    """Wait for a job or flow that was submitted, and say so where it does not complete; the state
    that it ends in."""
    name = (one.namespace, one.name)
    while True:
        reason = ""
        if one.kind == "Job":
            job = ask(address, GetJob("/".join(name)))
            state, settled, reason = job.state, SETTLED, job.reason
        else:
            flows = {(row.namespace, row.name): row for row in ask(address, ListFlows())}
            flow = flows.get(name)
            state, settled = (flow.state, FLOW_SETTLED) if flow else ("Deleted", FLOW_SETTLED)
            reason = flow.reason if flow else ""
        if state in settled:
            if state not in WELL:
                say(how_it_ended(one.kind, name, state, reason), err=True)
            return state
        time.sleep(_FOLLOW_S)


def run(
    command: Annotated[list[str], typer.Argument(help="The command, after --.")],
    gang: Annotated[int, typer.Option(min=1, help="So many members, all or none.")] = 1,
    least: Annotated[int | None, typer.Option("--min", min=1, help="Fewer will do.")] = None,
    cpus: Annotated[float, typer.Option(min=0, help="CPUs of each member.")] = 1,
    gpus: Annotated[float, typer.Option(min=0, help="GPUs of each member.")] = 0,
    memory: Annotated[
        str | None,
        typer.Option(help="Memory of each member, like 4Gi; one that uses more is ended."),
    ] = None,
    queue: Queue = "default",
    priority: Annotated[int, typer.Option(help="Higher goes first.")] = 0,
    name: NewName = None,
    retries: Annotated[int, typer.Option(min=0, help="Restarts after failures.")] = 0,
    limit: Annotated[
        str | None,
        typer.Option("--time", "-t", help="How long it may run: 2h30m, 90 (minutes), 1-12:00."),
    ] = None,
    begin: Annotated[
        str | None, typer.Option(help="Not before: now+1h, 18:00, 2027-01-31T18:00.")
    ] = None,
    deadline: Annotated[str | None, typer.Option(help="It has ended by then, or ends.")] = None,
    signal: Annotated[
        str | None,
        typer.Option(
            help="[B:]NAME\\[@SECONDS] before the end, as USR1@300, and when its place is taken; "
            "B: only the shell."
        ),
    ] = None,
    requeue: Annotated[
        str | None,
        typer.Option(help="Start again also after: timeout, or exit codes, as timeout,75."),
    ] = None,
    requeue_max: Annotated[int, typer.Option(min=0, help="So often at most.")] = DEFAULT_REQUEUES,
    no_requeue: Annotated[
        bool, typer.Option("--no-requeue", help="Nor when it is preempted or loses a node.")
    ] = False,
    after: Annotated[
        str | None,
        typer.Option(help="Not before other jobs: afterok:17:18, afterany:19, after:20+10, ..."),
    ] = None,
    array: Annotated[
        str | None, typer.Option(help="Once for each index: 0-99, 0-99%10 (ten at once), 1,3,5-9.")
    ] = None,
    hold: Annotated[bool, typer.Option("--hold", "-H", help="It waits until released.")] = False,
    reservation: Annotated[
        str | None, typer.Option(help="Inside of this one: it waits for it, and ends with it.")
    ] = None,
    licenses: Annotated[
        str | None, typer.Option("--licenses", "-L", help="So many, as matlab:2,ansys.")
    ] = None,
    grace: Annotated[
        float, typer.Option(min=0, help="Seconds between SIGTERM and SIGKILL.")
    ] = DEFAULT_GRACE_S,
    time_limit: Annotated[float | None, typer.Option(help="Seconds a member may run.")] = None,
    env: Annotated[list[str] | None, typer.Option("--env", "-e", help="NAME=VALUE.")] = None,
    directory: Annotated[Path | None, typer.Option(help="Where it runs (default: here).")] = None,
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Do not follow it.")] = False,
    pty: Annotated[bool, typer.Option("--pty", help="At a terminal, as -- bash.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No word while it waits.")] = False,
    address: Address = None,
) -> None:
    """Run a command as a gang, show what it prints, and exit as it does.

    `phalanx run --gang 4 --gpus 1 --queue q -- python train.py`
    """
    from phalanx.api.job import Job
    from phalanx.api.jobs import job_manifest, new_request
    from phalanx.manifests.quantities import quantity

    try:
        amount = None if memory is None else quantity(memory)
        job = Job(
            command,
            name=name,
            members=gang,
            min_members=least,
            queue=queue,
            priority=priority,
            num_cpus=cpus,
            num_gpus=gpus,
            memory=amount,
            memory_limit=amount,
            env=_variables(env or []),
            working_dir=None if directory is None else str(directory.resolve()),
            max_retries=retries,
            time=limit,
            begin=begin,
            deadline=deadline,
            signal=signal,
            requeue=_requeue(requeue, requeue_max, no_requeue),
            after=after,
            array=array,
            hold=hold,
            reservation=reservation,
            licenses=licenses,
            grace_s=grace,
            time_limit_s=time_limit,
        )
    except (ValueError, TypeError) as error:
        fail(str(error), USAGE)
    spec = job.spec()
    if pty:
        found = run_at_terminal(address, spec, detach, quiet)
    elif detach:
        ask(address, new_request([job_manifest(spec)]))
        say(str(job.name))
        return
    else:
        found = _run_here(address, spec, array is not None, quiet)
    if found.state not in WELL:
        uid = (found.namespace, found.name)
        say(how_it_ended("Job", uid, found.state, found.reason), err=True)
    raise typer.Exit(code_of(found))


def _run_here(address: str | None, spec: JobSpec, is_array: bool, is_quiet: bool) -> JobDescription:
    """Submit a job and show what it prints; the job once it is over. It ends when this command is
    ended, whichever way but by SIGKILL."""
    from phalanx.api.jobs import job_manifest, new_request

    with cancelled_by_interrupt(address, spec):
        ask(address, new_request([job_manifest(spec)]))
        if not is_quiet:
            say(f"job {spec.name}", err=True)
        if not is_array:
            wait_until_running(address, spec.uid, is_quiet, any_member=True)
        elif not is_quiet:
            say(f"`phalanx logs '{spec.name}[INDEX]'` prints what an element printed", err=True)
        return follow(JobOutput(address, spec.uid, None, is_run=True))


def _requeue(also: str | None, most: int, is_never: bool) -> dict[str, object] | None:
    """The rule that these options mean. Being preempted and losing a node are part of it, unless
    it `is_never`."""
    if also is None and not is_never:
        return None
    if is_never and also is not None:
        raise ValueError("--requeue and --no-requeue exclude each other")
    words = [word.strip() for word in (also or "").split(",") if word.strip()]
    codes = [int(word) for word in words if word.isdecimal() and len(word) < 4]
    reasons = [word for word in words if not (word.isdecimal() and len(word) < 4)]
    named = [] if is_never else list(dict.fromkeys([*Requeue().reasons, *reasons]))
    return {"reasons": named, "exitCodes": codes, "max": most}


def _variables(given: list[str]) -> dict[str, str]:
    found = {}
    for text in given:
        name, is_set, value = text.partition("=")
        if not name or not is_set:
            raise ValueError(f"a variable is NAME=VALUE, not {text!r}")
        found[name] = value
    return found


def code_of(job: JobDescription) -> int:
    """The exit code of the first member that failed, else of the job; 124 where its time ran
    out."""
    if job.state == st.COMPLETED:
        return 0
    if job.state in st.OUT_OF_TIME:
        return TIMED_OUT
    return next((m.exit_code for m in job.members if m.exit_code), FAILED)


def rows_json(rows: Row | Sequence[Row], indent: int | None = 1) -> str:
    """One row or several for machines."""
    plain = rows.as_dict() if isinstance(rows, Row) else [row.as_dict() for row in rows]
    return json_module.dumps(plain, indent=indent)


def jobs(
    name: Annotated[
        str | None, typer.Argument(help="An array, or NAME[3-5]: a row for its elements.")
    ] = None,
    queue: Annotated[str | None, typer.Option("--queue", "-q", help="Only of this queue.")] = None,
    state: Annotated[str | None, typer.Option("--state", "-s", help="Only in this one.")] = None,
    address: Address = None,
    json: Json = False,
    watch: Watch = False,
) -> None:
    """List jobs, oldest first; or the elements of an array."""
    if name is not None and (queue is not None or state is not None):
        fail("NAME, and --queue and --state, exclude each other.", USAGE)
    while True:
        rows, text = _listed(address, name, queue, state)
        if watch and not json and sys.stdout.isatty():
            typer.echo(_CLEAR, nl=False)
        typer.echo(rows_json(rows, None if watch else 1) if json else text)
        if not watch:
            return
        sys.stdout.flush()
        time.sleep(_EVERY_S)


def _listed(
    address: str | None, name: str | None, queue: str | None, state: str | None
) -> tuple[Sequence[Row], str]:
    """The rows of `phalanx jobs`, and what they are as text."""
    is_element = name is not None and "[" in name
    jobs = [] if is_element else ask(address, ListJobs(queue, state, name))
    if name is None or not (is_element or jobs[0].array):
        return jobs, jobs_text(jobs)
    elements = ask(address, ListElements(name))
    return elements, elements_text(elements)


def job(name: Name, address: Address = None, json: Json = False) -> None:
    """Show one job: its members with their nodes and devices, its history, and why it waits."""
    found = ask(address, GetJob(name))
    if json:
        typer.echo(rows_json(found))
        return
    query = EventQuery(job=f"{found.namespace}/{found.name}", kinds=list(OF_PLACES))
    typer.echo(job_text(found, ask(address, ListEvents(query)).events))
    if found.state == st.PENDING:
        say(f"\n{ask(address, Explain(f'{found.namespace}/{found.name}'))}")


def snapshot(
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The file (default: print it).")
    ] = None,
    address: Address = None,
) -> None:
    """Write what the scheduler looks at, for `phalanx replay` and `explain`."""
    data = ask(address, TakeSnapshot())
    if output is None:
        typer.echo(data.decode())
        return
    try:
        output.write_bytes(data + b"\n")
    except OSError as error:
        fail(f"{output}: {error.strerror}")


def flows(address: Address = None, json: Json = False) -> None:
    """List flows: how far each is, and the state of every step's job."""
    rows = ask(address, ListFlows())
    typer.echo(rows_json(rows) if json else flows_text(rows, time.time()))


def crons(address: Address = None, json: Json = False) -> None:
    """List cron jobs: when they make jobs, and which of those run."""
    rows = ask(address, ListCrons())
    typer.echo(rows_json(rows) if json else crons_text(rows))


def hypernodes(address: Address = None, json: Json = False) -> None:
    """List network domains, and which nodes are in each now."""
    rows = ask(address, ListHyperNodes())
    typer.echo(rows_json(rows) if json else hypernodes_text(rows))
