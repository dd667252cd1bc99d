"""The command `phalanx run`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec

from phalanx.cli import panels
from phalanx.cli.common_options import PanelAddress
from phalanx.cli.durations import METAVAR, seconds_at_least
from phalanx.cli.ending import Ended
from phalanx.cli.environment_options import (
    Conda,
    Image,
    Pip,
    PyModule,
    RuntimeEnvFile,
    RuntimeEnvJson,
    Uv,
    WorkingDir,
    runtime_env,
)
from phalanx.cli.gpu_options import (
    GpuCompute,
    GpuMemory,
    GpuMemoryLimit,
    Gpus,
    GpuShare,
    gpu_fields,
)
from phalanx.cli.job_view import WELL, how_it_ended
from phalanx.cli.member_options import Cpus, Memory, Queue, Quiet, Time
from phalanx.cli.new_names import NewName
from phalanx.cli.option_names import OF_JOB, with_options
from phalanx.cli.options import Argument, Option
from phalanx.cli.reach import USAGE, ask, fail
from phalanx.cli.table import say
from phalanx.model.jobs.spec import DEFAULT_GRACE_S, JobSpec
from phalanx.model.jobs.timing import DEFAULT_REQUEUES, Requeue
from phalanx.model.rows.work import JobDescription


def run(
    command: Annotated[list[str], Argument(help="Command of each member, written after --.")],
    gang: Annotated[
        int,
        Option(
            min=1,
            rich_help_panel=panels.RESOURCES,
            help="Number of members. All members, or at least --min members, start together.",
        ),
    ] = 1,
    least: Annotated[
        int | None,
        Option(
            "--min",
            min=1,
            rich_help_panel=panels.RESOURCES,
            help="Smallest number of members with which the job may start. Default: the value of "
            "--gang.",
        ),
    ] = None,
    cpus: Cpus = 1,
    gpus: Gpus = "0",
    gpu_memory: GpuMemory = None,
    gpu_memory_limit: GpuMemoryLimit = None,
    gpu_share: GpuShare = None,
    gpu_compute: GpuCompute = None,
    memory: Memory = None,
    queue: Queue = "default",
    priority: Annotated[
        int,
        Option(
            rich_help_panel=panels.PLACEMENT,
            help="Priority within the queue; a job with a higher number starts first, and may take "
            "the place of running jobs with a lower one, which then start again later.",
        ),
    ] = 0,
    name: NewName = None,
    retries: Annotated[
        int,
        Option(
            min=-1,
            rich_help_panel=panels.FAILURES,
            help="Number of times that the job starts again after a failure; -1 for no limit.",
        ),
    ] = 0,
    limit: Time = None,
    begin: Annotated[
        str | None,
        Option(
            rich_help_panel=panels.TIME,
            help="Earliest time at which the job may start: now+1h, 18:00 or 2027-01-31T18:00.",
        ),
    ] = None,
    deadline: Annotated[
        str | None,
        Option(
            rich_help_panel=panels.TIME,
            help="Point in time at which the job is ended if it still waits or runs: now+8h, "
            "18:00 or 2027-01-31T18:00. A waiting job ends earlier: when its --time no longer "
            "fits before that point.",
        ),
    ] = None,
    signal: Annotated[
        str | None,
        Option(
            rich_help_panel=panels.TIME,
            help="Warning signal that members get before their time ends (by --time, "
            "--deadline or the end of their reservation), as [B:]NAME\\[@SECONDS]. USR1@300 sends "
            "SIGUSR1 300 seconds before; without @SECONDS, 60 seconds before. When a job is "
            "preempted, the signal comes immediately, and SIGTERM after half of --grace. By "
            "default, all processes of a member get the signal, except the member's command if "
            "the command is a shell. With B:, only the command gets the signal.",
        ),
    ] = None,
    requeue: Annotated[
        list[str] | None,
        Option(
            rich_help_panel=panels.FAILURES,
            help="Reasons to queue the job again, separated by commas: timeout (the job "
            "reached its time limit) or exit codes of members, such as timeout,75. A job that "
            "is preempted or loses a node is queued again even without this option. May be "
            "repeated.",
        ),
    ] = None,
    requeue_max: Annotated[
        int,
        Option(
            min=0,
            rich_help_panel=panels.FAILURES,
            help="Maximum number of times that the job is queued again for the reasons of "
            "--requeue. Preemptions and lost nodes do not count.",
        ),
    ] = DEFAULT_REQUEUES,
    no_requeue: Annotated[
        bool,
        Option(
            "--no-requeue",
            rich_help_panel=panels.FAILURES,
            help="End the job when it is preempted or loses a node, instead of queueing it again.",
        ),
    ] = False,
    movable: Annotated[
        str | None,
        Option(
            rich_help_panel=panels.FAILURES,
            help="Let the scheduler move the job to other nodes to make room for other work. "
            "Value: how often the job saves its work, such as 10m, or `true` for a job that saves "
            "nothing.",
        ),
    ] = None,
    after: Annotated[
        list[str] | None,
        Option(
            rich_help_panel=panels.DEPENDENCIES,
            help="Jobs for which this job waits: afterok:prep:load (until the jobs prep and "
            "load have succeeded), afterany:prep (until prep has ended), after:prep+10 (until "
            "10 minutes after the start of prep) or singleton (until all earlier jobs with this "
            "job's name have ended). May be repeated: all must be met.",
        ),
    ] = None,
    array: Annotated[
        str | None,
        Option(
            rich_help_panel=panels.DEPENDENCIES,
            help="Indices of array tasks: 0-99, 0-99%10 (at most ten run at a time) or 1,3,5-9. "
            "The command runs once for each index.",
        ),
    ] = None,
    hold: Annotated[
        bool,
        Option(
            "--hold",
            "-H",
            rich_help_panel=panels.DEPENDENCIES,
            help="Keep the job from starting until `phalanx release`.",
        ),
    ] = False,
    reservation: Annotated[
        str | None,
        Option(
            rich_help_panel=panels.PLACEMENT,
            help="Name of the reservation to run in. The job starts after the reservation begins, "
            "and is ended when the reservation ends.",
        ),
    ] = None,
    licenses: Annotated[
        list[str] | None,
        Option(
            "--licenses",
            "-L",
            rich_help_panel=panels.RESOURCES,
            help="Licenses that the job holds while it runs, such as matlab:2,ansys (two licenses "
            "of matlab and one of ansys). May be repeated.",
        ),
    ] = None,
    grace: Annotated[
        float,
        Option(
            parser=seconds_at_least(0),
            metavar=METAVAR,
            rich_help_panel=panels.TIME,
            show_default=False,
            help="Time between SIGTERM and SIGKILL when a member is ended: 90s, 15m or 30 "
            f"(seconds). Default: {DEFAULT_GRACE_S:g}s.",
        ),
    ] = DEFAULT_GRACE_S,
    time_limit: Annotated[
        float | None,
        Option(
            parser=seconds_at_least(0),
            metavar=METAVAR,
            rich_help_panel=panels.TIME,
            help="Time limit of each member, counted from its own start: 90s, 15m, 2h or 90 "
            "(seconds). Only the member that runs longer is ended, with exit code 124. --time "
            "limits the whole job instead.",
        ),
    ] = None,
    env: Annotated[
        list[str] | None,
        Option(
            "--env",
            "-e",
            rich_help_panel=panels.COMMAND,
            help="Environment variable of the command, as NAME=VALUE; may be repeated.",
        ),
    ] = None,
    pip: Pip = None,
    uv: Uv = None,
    conda: Conda = None,
    image: Image = None,
    working_dir: WorkingDir = None,
    py_module: PyModule = None,
    runtime_env_file: RuntimeEnvFile = None,
    runtime_env_json: RuntimeEnvJson = None,
    directory: Annotated[
        Path | None,
        Option(
            rich_help_panel=panels.COMMAND,
            help="Existing directory on the node in which the command runs; nothing is "
            "uploaded. Default: the uploaded copy of --working-dir, else the current "
            "directory or, with a login, a new directory for each member.",
        ),
    ] = None,
    detach: Annotated[
        bool,
        Option(
            "--detach",
            "-d",
            rich_help_panel=panels.OUTPUT,
            help="Submit the job, print its name and return at once.",
        ),
    ] = False,
    pty: Annotated[
        bool,
        Option(
            "--pty",
            rich_help_panel=panels.OUTPUT,
            help="Give the command a terminal, for example for `phalanx run --pty -- bash`. Only "
            "for jobs of one member, and not with a login.",
        ),
    ] = False,
    quiet: Quiet = False,
    address: PanelAddress = None,
) -> None:
    """Run a command as a job, print its output, and exit with the job's exit code.

    With --array, no output is printed. If members fail, the exit code is that of
    the first failed member in the order of ranks. The exit code is 124 if a time
    limit, a deadline or the end of a reservation ended the job. For example:
    `phalanx run --gang 4 --gpus 1 --queue q -- python train.py`
    """
    from phalanx.api.job import Job
    from phalanx.api.new_manifests import job_manifest, new_request
    from phalanx.cli.job_output import code_of

    try:
        job = Job(
            command,
            name=name,
            members=gang,
            min_members=least,
            queue=queue,
            priority=priority,
            num_cpus=cpus,
            **gpu_fields(
                gpus,
                memory=gpu_memory,
                memory_limit=gpu_memory_limit,
                share=gpu_share,
                compute=gpu_compute,
            ),
            memory=memory,
            memory_limit=memory,
            env=_variables(env or []),
            working_dir=str(directory.resolve()) if directory else _directory(address, working_dir),
            runtime_env=runtime_env(
                runtime_env_file,
                runtime_env_json,
                pip=pip,
                uv=uv,
                conda=conda,
                image_uri=image,
                working_dir=working_dir,
                py_modules=py_module,
            ),
            max_retries=retries,
            time=limit,
            begin=begin,
            deadline=deadline,
            signal=signal,
            requeue=_requeue(_together(requeue), requeue_max, no_requeue),
            movable=movable,
            after=_together(after),
            array=array,
            hold=hold,
            reservation=reservation,
            licenses=_together(licenses),
            grace_s=grace,
            time_limit_s=time_limit,
        )
    except (ValueError, TypeError) as error:
        fail(with_options(str(error), OF_JOB), USAGE)
    spec = job.spec()
    if job.uploads:
        spec = _uploaded(address, spec, job.runtime_env or {})
    if pty:
        from phalanx.cli.interactive import run_at_terminal

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
    raise Ended(code_of(found))


def _directory(address: str | None, uploaded: str | None) -> str | None:
    """Return the directory of a command for which no directory is given."""
    from phalanx.api.directories import default_directory

    return None if uploaded else default_directory(address)


def _run_here(address: str | None, spec: JobSpec, is_array: bool, is_quiet: bool) -> JobDescription:
    """Submit a job, and print its output. Returns the job when it is over. If this command ends
    early, the job is cancelled, except after SIGKILL.
    """
    from phalanx.api.new_manifests import job_manifest, new_request
    from phalanx.cli.allocation import cancelled_by_interrupt, wait_until_running
    from phalanx.cli.job_output import JobOutput, follow

    spec = msgspec.structs.replace(spec, is_followed=not is_array)
    with cancelled_by_interrupt(address, spec):
        ask(address, new_request([job_manifest(spec)]))
        if not is_quiet:
            say(f"job {spec.name}", err=True)
        if not is_array:
            wait_until_running(address, spec.uid, is_quiet, any_member=True)
        elif not is_quiet:
            say(f"`phalanx logs '{spec.name}[INDEX]'` prints the output of an array task", err=True)
        return follow(JobOutput(address, spec.uid, None, is_run=True, is_quiet=is_quiet))


def _uploaded(address: str | None, spec: JobSpec, runtime_env: Mapping[str, Any]) -> JobSpec:
    """Upload the directories and modules of a job."""
    from phalanx.api.uploads import with_packages

    try:
        return with_packages(
            spec,
            runtime_env,
            lambda request: ask(address, request),
            lambda text: say(f"phalanx: {text}", err=True),
        )
    except ValueError as error:
        fail(str(error), USAGE)


def _together(given: list[str] | None) -> str | None:
    """Return the values of an option that may be repeated as one list."""
    return ",".join(given) if given else None


def _requeue(also: str | None, most: int, is_never: bool) -> dict[str, object] | None:
    """Return the rule for queueing a job again; None if no option changes the default. Unless
    `is_never`, the rule includes preemption and the loss of a node.
    """
    if also is None and not is_never:
        return None
    if is_never and also is not None:
        raise ValueError("--requeue and --no-requeue cannot be combined")
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
