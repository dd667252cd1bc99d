"""`ray job submit`, `status`, `logs`, `list`, `stop`, `delete`: Ray's commands over its job API."""

from __future__ import annotations

import asyncio
import os
import pprint
import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from phalanx.cli.reach import FAILED, USAGE, fail, json_object
from phalanx.cli.table import say

if TYPE_CHECKING:
    from phalanx.adapters.ray.jobs.client import JobSubmissionClient
    from phalanx.adapters.ray.jobs.details import JobStatus

app = typer.Typer(help="Submit, stop, delete, or list Ray jobs.", no_args_is_help=True)

_LOOK_EVERY_S = 0.5

Address = Annotated[
    str | None,
    typer.Option(
        help="URL of the job server, such as http://127.0.0.1:8265 (default: RAY_ADDRESS, else the "
        "job server on this machine)."
    ),
]
Headers = Annotated[
    str | None,
    typer.Option(
        help='HTTP headers to send with each request, as JSON, such as \'{"X-User": "ann"}\'.'
    ),
]
Verify = Annotated[
    str,
    typer.Option(
        help="Check of the server's certificate: true, false, or a file with the CA certificates "
        "to trust."
    ),
]
JobId = Annotated[str, typer.Argument(help="Submission id of the job, as `ray job list` shows it.")]
NoWait = Annotated[
    bool, typer.Option("--no-wait", help="Return at once instead of waiting for the job's end.")
]


@app.command()
def submit(
    entrypoint: Annotated[list[str], typer.Argument(help="Command to run, written after --.")],
    address: Address = None,
    submission_id: Annotated[
        str | None, typer.Option(help="Submission id of the job (default: a generated id).")
    ] = None,
    job_id: Annotated[str | None, typer.Option(help="Ray's old name of --submission-id.")] = None,
    runtime_env: Annotated[
        Path | None, typer.Option(help="YAML file with the runtime environment.")
    ] = None,
    runtime_env_json: Annotated[
        str | None,
        typer.Option(help='Runtime environment, as JSON, such as \'{"pip": ["numpy"]}\'.'),
    ] = None,
    working_dir: Annotated[
        str | None, typer.Option(help="Directory to upload; the command runs in the uploaded copy.")
    ] = None,
    metadata_json: Annotated[
        str | None,
        typer.Option(help='Metadata to store with the job, as JSON, such as \'{"owner": "ann"}\'.'),
    ] = None,
    entrypoint_num_cpus: Annotated[
        float | None, typer.Option(help="Number of CPUs that the job reserves for the command.")
    ] = None,
    entrypoint_num_gpus: Annotated[
        float | None, typer.Option(help="Number of GPUs that the job reserves for the command.")
    ] = None,
    entrypoint_memory: Annotated[
        int | None, typer.Option(help="Memory that the job reserves for the command, in bytes.")
    ] = None,
    entrypoint_resources: Annotated[
        str | None,
        typer.Option(
            help="Further resources that the job reserves for the command, as JSON, such as "
            "'{\"TPU\": 4}'."
        ),
    ] = None,
    entrypoint_label_selector: Annotated[
        str | None,
        typer.Option(
            help="Labels that a node must have to run the command, as JSON, such as "
            '\'{"zone": "a"}\'.'
        ),
    ] = None,
    no_wait: NoWait = False,
    headers: Headers = None,
    verify: Verify = "true",
) -> None:
    """Run a command as a job, and show its output. Exits with 1 when the job failed."""
    environment = _environment(runtime_env, runtime_env_json, working_dir)
    options: dict[str, Any] = {
        "metadata": json_object("metadata-json", metadata_json, '{"key": "value"}'),
        "entrypoint_resources": json_object(
            "entrypoint-resources", entrypoint_resources, '{"TPU": 4}'
        ),
        "entrypoint_label_selector": json_object(
            "entrypoint-label-selector", entrypoint_label_selector, '{"key": "value"}'
        ),
    }
    if job_id:
        say("--job-id option is deprecated. Please use --submission-id instead.", err=True)
    with _client(address, headers, verify) as client:
        job = client.submit_job(
            entrypoint=shlex.join(entrypoint),
            submission_id=submission_id or job_id,
            runtime_env=environment,
            entrypoint_num_cpus=entrypoint_num_cpus,
            entrypoint_num_gpus=entrypoint_num_gpus,
            entrypoint_memory=entrypoint_memory,
            **options,
        )
        _headline(f"Job '{job}' submitted successfully")
        say("Next steps\n  Query the logs of the job:")
        word = shlex.quote(job)
        say(f"    ray job logs {word}\n  Query the status of the job:")
        say(f"    ray job status {word}\n  Request the job to be stopped:")
        say(f"    ray job stop {word}\n")
        if no_wait:
            return
        say("Tailing logs until the job exits (disable with --no-wait):")
        _end_as(_followed(client, job))


@app.command()
def status(
    job_id: JobId, address: Address = None, headers: Headers = None, verify: Verify = "true"
) -> None:
    """Show a job's status."""
    with _client(address, headers, verify) as client:
        _show_status(client, job_id)


@app.command()
def logs(
    job_id: JobId,
    address: Address = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Keep printing new output until the job is over.")
    ] = False,
    headers: Headers = None,
    verify: Verify = "true",
) -> None:
    """Print a job's output."""
    with _client(address, headers, verify) as client:
        if follow:
            _end_as(_followed(client, job_id))
        else:
            typer.echo(client.get_job_logs(job_id), nl=False)


@app.command("list")
def list_(address: Address = None, headers: Headers = None, verify: Verify = "true") -> None:
    """List all jobs."""
    with _client(address, headers, verify) as client:
        typer.echo(pprint.pformat(client.list_jobs()))


@app.command()
def stop(
    job_id: JobId,
    address: Address = None,
    no_wait: NoWait = False,
    headers: Headers = None,
    verify: Verify = "true",
) -> None:
    """End a job."""
    with _client(address, headers, verify) as client:
        say(f"Attempting to stop job '{job_id}'")
        client.stop_job(job_id)
        if no_wait:
            return
        say(f"Waiting for job '{job_id}' to exit (disable with --no-wait):")
        while not client.get_job_status(job_id).is_terminal():
            time.sleep(_LOOK_EVERY_S)
        _show_status(client, job_id)


@app.command()
def delete(
    job_id: JobId, address: Address = None, headers: Headers = None, verify: Verify = "true"
) -> None:
    """Delete the record of a job that is over. Exits with 1 if the job still runs."""
    with _client(address, headers, verify) as client:
        client.delete_job(job_id)
        say(f"Job '{job_id}' deleted successfully")


@contextmanager
def _client(address: str | None, headers: str | None, verify: str) -> Iterator[JobSubmissionClient]:
    """Print the server's address, and yield a client of the server. An error of the server ends the
    command.
    """
    from phalanx.adapters.ray.jobs.client import JobSubmissionClient
    from phalanx.errors import PhalanxError

    given = json_object("headers", headers or os.environ.get("RAY_JOB_HEADERS"), '{"key": "value"}')
    checked: str | bool = {"true": True, "false": False}.get(verify.lower(), verify)
    try:
        client = JobSubmissionClient(address, headers=given, verify=checked)
        say(f"Job submission server address: {client.get_address()}")
        yield client
    except (RuntimeError, ValueError, OSError, PhalanxError) as error:
        fail(str(error))


def _followed(client: JobSubmissionClient, job: str) -> JobStatus:
    async def follow() -> None:
        async for text in client.tail_job_logs(job):
            typer.echo(text, nl=False)

    asyncio.run(follow())
    return _show_status(client, job)


def _end_as(status: JobStatus) -> None:
    if str(status) == "FAILED":
        raise typer.Exit(FAILED)


def _show_status(client: JobSubmissionClient, job: str) -> JobStatus:
    found = client.get_job_info(job)
    if str(found.status) == "SUCCEEDED":
        _headline(f"Job '{job}' succeeded")
        return found.status
    if str(found.status) == "STOPPED":
        say(f"Job '{job}' was stopped")
        return found.status
    if str(found.status) == "FAILED":
        _headline(f"Job '{job}' failed")
    else:
        say(f"Status for job '{job}': {found.status}")
    if found.message is not None:
        say(f"Status message: {found.message}")
    return found.status


def _headline(text: str) -> None:
    line = "-" * len(text)
    say(f"\n{line}\n{text}\n{line}\n")


def _environment(file: Path | None, text: str | None, directory: str | None) -> dict[str, Any]:
    import yaml

    if file is not None and text is not None:
        fail("Only one of --runtime-env and --runtime-env-json can be provided.", USAGE)
    found = json_object("runtime-env-json", text, '{"working_dir": "."}') or {}
    if file is not None:
        try:
            found = yaml.safe_load(file.read_text())
        except (OSError, yaml.YAMLError) as error:
            fail(f"{file}: {error}", USAGE)
    if directory is not None:
        if "working_dir" in found:
            say("Overriding runtime_env working_dir with --working-dir option", err=True)
        found["working_dir"] = directory
    return found
