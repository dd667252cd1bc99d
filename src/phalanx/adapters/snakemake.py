"""Snakemake's executor `phalanx`: each job of Snakemake, or each group of jobs, becomes a job of
Phalanx.

    snakemake --executor phalanx --jobs 100 --phalanx-queue lab

A rule's `threads`, `mem_mb`, `runtime` (minutes), `gpu` and `phalanx_queue` become the request of
its job. Snakemake finds the executor by the module `snakemake_executor_plugin_phalanx`. All nodes
have to share the directory of the workflow.
"""

import os
import re
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor
from snakemake_interface_executor_plugins.settings import CommonSettings, ExecutorSettingsBase

import phalanx
from phalanx.errors import JobCommandError, JobNotFoundError, PhalanxError
from phalanx.model.jobs import states as st

LOGS = Path(".snakemake", "phalanx")
"""The folder, below the workflow's directory, for the output of failed jobs."""

common_settings = CommonSettings(
    non_local_exec=True,
    implies_no_shared_fs=False,
    job_deploy_sources=False,
    pass_envvar_declarations_to_cmd=False,
)


@dataclass
class ExecutorSettings(ExecutorSettingsBase):
    """Options of the command line, such as `--phalanx-address`."""

    address: str = field(
        default="",
        metadata={"help": "Address of the cluster (default: the one that `init` finds)."},
    )
    queue: str = field(
        default="", metadata={"help": "Queue of jobs whose rule has no resource `phalanx_queue`."}
    )


class Executor(RemoteExecutor):
    """Submits, watches and cancels Snakemake's jobs as jobs of Phalanx."""

    def __post_init__(self) -> None:
        given = self.workflow.executor_settings or ExecutorSettings()
        self._queue = given.queue or None
        if not phalanx.is_initialized():
            phalanx.init(address=given.address or None)

    def run_job(self, job: Any) -> None:
        """Submit a job. A job that could never fit into the cluster counts as failed."""
        info = SubmittedJobInfo(job=job)
        try:
            info.external_jobid = phalanx.submit(self._job(job)).name
        except (PhalanxError, ValueError) as error:
            self.report_job_error(info, msg=f"{error} ")
        else:
            self.report_job_submission(info)

    def _job(self, job: Any) -> phalanx.Job:
        asked = job.resources
        memory, minutes = asked.get("mem_mb"), asked.get("runtime")
        stem = re.sub(r"[^a-z0-9]+", "-", str(job.name).lower())[:24].strip("-")
        return phalanx.Job(
            self.format_job_exec(job),
            name=f"smk-{stem or 'job'}-{os.urandom(4).hex()}",
            num_cpus=max(job.threads, 1),
            num_gpus=asked.get("gpu", 0),
            memory=None if not memory else float(memory) * 1e6,
            time=None if not minutes else f"{float(minutes) * 60:.0f}s",
            queue=asked.get("phalanx_queue") or self._queue,
            working_dir=os.getcwd(),
            env=self.envvars(),
        )

    async def check_active_jobs(
        self, active_jobs: list[SubmittedJobInfo]
    ) -> AsyncGenerator[SubmittedJobInfo, None]:
        """Report the jobs that have ended, and yield those that are still active."""
        rows = {row.name: row for row in phalanx.jobs()} if active_jobs else {}
        for info in active_jobs:
            row = rows.get(info.external_jobid)
            if row is not None and row.state not in st.FINISHED:
                yield info
            elif row is not None and row.state == st.COMPLETED:
                self.report_job_success(info)
            else:
                why = (
                    "the cluster no longer knows the job"
                    if row is None
                    else f"{row.state}: {row.reason}"
                )
                logs = [str(path) for path in [_kept_log(info.external_jobid)] if path]
                self.report_job_error(info, msg=f"{info.external_jobid}: {why} ", aux_logs=logs)

    def cancel_jobs(self, active_jobs: list[SubmittedJobInfo]) -> None:
        """Cancel jobs that are still running or waiting."""
        for info in active_jobs:
            try:
                phalanx.JobHandle(info.external_jobid).cancel()
            except (JobCommandError, JobNotFoundError):
                continue  # the job is already over


def _kept_log(name: str) -> Path | None:
    """Store a job's output in a file. Returns the file's path; None if the output is gone."""
    try:
        printed = phalanx.JobHandle(name).logs()
    except PhalanxError:
        return None
    LOGS.mkdir(parents=True, exist_ok=True)
    path = LOGS / f"{name}.log"
    path.write_text(printed)
    return path
