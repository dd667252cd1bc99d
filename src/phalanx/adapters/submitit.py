"""submitit's cluster `phalanx`: each job of submitit becomes a job of Phalanx, with a member for
each task.

    executor = submitit.AutoExecutor(folder, cluster="phalanx")
    executor.update_parameters(timeout_min=60, gpus_per_node=1, phalanx_queue="lab")

Functions, results and output are files below the executor's folder, which all nodes have to share,
as on Slurm. submitit finds the two classes by the entry points `executor` and `job_environment`.
Members run `python -m phalanx.adapters.submitit FOLDER`.
"""

from __future__ import annotations

import os
import shlex
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from submitit.core import core, job_environment, logger, utils

import phalanx
from phalanx.errors import JobCommandError, JobNotFoundError
from phalanx.model.jobs import states as st

OWN_PARAMETERS = frozenset({"queue", "priority", "env", "setup", "signal_delay_s"})
"""The parameters that `update_parameters` accepts as `phalanx_NAME`, in addition to submitit's
own.
"""
DEFAULT_TIMEOUT_MIN = 5.0
DEFAULT_SIGNAL_DELAY_S = 90
REQUEUED = 75
"""The exit code by which a task that has written a checkpoint makes its job wait again."""
GRACE_S = 30.0
"""Seconds that a preempted job has for writing a checkpoint."""
_NAMES = {
    st.PENDING: "PENDING",
    st.PREPARING: "CONFIGURING",
    st.RUNNING: "RUNNING",
    st.RESTARTING: "REQUEUED",
    st.COMPLETED: "COMPLETED",
    st.TERMINATED: "CANCELLED",
    st.TIMED_OUT: "TIMEOUT",
}
"""submitit's names of states of jobs. States that are not listed have Phalanx's names."""
LOOK_EVERY_S = 0.5


class PhalanxInfoWatcher(core.InfoWatcher):
    """Asks the cluster for the states of the jobs that this process follows."""

    def update(self) -> None:
        """Fetch the jobs' states."""
        rows = {row.name: row for row in phalanx.jobs()}
        for job_id in self._registered - self._finished:
            row = rows.get(job_id)
            state = "UNKNOWN" if row is None else _NAMES.get(row.state, row.state.upper())
            self._info_dict[job_id] = {
                "JobID": job_id,
                "State": state,
                "Reason": "" if row is None else row.reason,
            }
            if self.is_done(job_id, mode="cache"):
                self._finished.add(job_id)
        self._last_status_check = time.time()

    def get_state(self, job_id: str, mode: str = "standard") -> str:
        """Return the state of a job."""
        return str(self.get_info(job_id, mode=mode).get("State", "UNKNOWN"))


class PhalanxJob(core.Job[Any]):
    """A submitted job."""

    watcher = PhalanxInfoWatcher(delay_s=1)

    def done(self, force_check: bool = False) -> bool:
        """Whether the job has ended. The result of a requeued job exists only after its last
        attempt.
        """
        has_results = all(job.paths.result_pickle.exists() for job in self._sub_jobs or [self])
        return has_results or self.watcher.is_done(self.job_id, mode="force")

    @property
    def state(self) -> str:
        """The job's current state."""
        return self.watcher.get_state(self.job_id, mode="force")

    def wait(self) -> None:
        """Wait until the job has ended."""
        while not self.done():
            time.sleep(LOOK_EVERY_S)

    def cancel(self, check: bool = True) -> None:
        """Cancel the job. `check`: whether to raise an error if the job has not ended and cannot be
        cancelled.
        """
        try:
            phalanx.JobHandle(self.job_id).cancel()
        except (JobCommandError, JobNotFoundError):
            if check and not self.done():
                raise


class PhalanxJobEnvironment(job_environment.JobEnvironment):
    """The environment of a job's task: the variables with the task's job, rank and nodes."""

    _env: ClassVar[dict[str, str]] = {
        "job_id": "PHALANX_JOB",
        "num_tasks": "WORLD_SIZE",
        "num_nodes": "GROUP_WORLD_SIZE",
        "node": "GROUP_RANK",
        "global_rank": "RANK",
        "local_rank": "LOCAL_RANK",
    }

    @classmethod
    def name(cls) -> str:
        """Return the name of the cluster."""
        return "phalanx"

    @property
    def hostnames(self) -> Sequence[str]:
        """The addresses of the job's nodes."""
        if not phalanx.is_initialized():
            phalanx.init()
        members = phalanx.JobHandle(self.job_id).describe().members
        at = {node["NodeID"]: node["NodeManagerAddress"] for node in phalanx.nodes()}
        return list(dict.fromkeys(at.get(one.node, one.node) for one in members if one.node))

    def _handle_signals(self, paths: utils.JobPaths, submission: utils.DelayedSubmission) -> None:
        """Handle signals from now on, and handle a signal that came earlier now."""
        super()._handle_signals(paths, submission)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {self._usr_sig()})

    def _requeue(self, countdown: int) -> None:
        """End the process with the exit code in the job's requeue rule, so that the job waits
        again. A preempted job waits again in any case.
        """
        logger.get_logger().info(f"{self.job_id} is requeued ({countdown} remaining timeouts)")
        sys.exit(REQUEUED)


class PhalanxExecutor(core.PicklingExecutor):
    """Submits functions as jobs. On a cluster that `phalanx start` has started, the jobs outlive
    this process.
    """

    job_class = PhalanxJob

    def __init__(
        self,
        folder: str | Path,
        max_num_timeout: int = 3,
        max_pickle_size_gb: float = 1.0,
        python: str | None = None,
    ) -> None:
        super().__init__(
            folder, max_num_timeout=max_num_timeout, max_pickle_size_gb=max_pickle_size_gb
        )
        self.python = python or sys.executable
        self._throttling = 0.0
        utils.JobPaths.get_first_id_independent_folder(self.folder).mkdir(
            parents=True, exist_ok=True
        )

    @classmethod
    def name(cls) -> str:
        """Return the name of the cluster."""
        return "phalanx"

    @classmethod
    def affinity(cls) -> int:
        """Return 0, so that submitit uses this executor only when a program names it."""
        return 0

    @classmethod
    def _valid_parameters(cls) -> set[str]:
        return set(OWN_PARAMETERS)

    def _num_tasks(self) -> int:
        return int(self.parameters.get("nodes", 1)) * self._tasks_per_node()

    def _tasks_per_node(self) -> int:
        return max(int(self.parameters.get("tasks_per_node", 1)), 1)

    def _submit_command(self, command: str) -> PhalanxJob:
        if not phalanx.is_initialized():
            phalanx.init()
        handle = phalanx.submit(self._job())
        return PhalanxJob(self.folder, handle.name, tasks=list(range(self._num_tasks())))

    def _job(self) -> phalanx.Job:
        asked, per_node = self.parameters, self._tasks_per_node()
        timeout_s = float(asked.get("timeout_min", DEFAULT_TIMEOUT_MIN)) * 60
        memory_gb = asked.get("mem_gb")
        module = [self.python, "-u", "-m", "phalanx.adapters.submitit", str(self.folder)]
        setup = [*asked.get("setup", ()), f"exec {shlex.join(module)}"]
        delay_s = int(asked.get("signal_delay_s", DEFAULT_SIGNAL_DELAY_S))
        warning = job_environment.JobEnvironment.USR_SIG
        return phalanx.Job(
            module if len(setup) == 1 else " && ".join(setup),
            name=_name(str(asked.get("name", "submitit"))),
            members=self._num_tasks(),
            num_cpus=int(asked.get("cpus_per_task", 1)),
            num_gpus=int(asked.get("gpus_per_node", 0)) / per_node,
            memory=None if memory_gb is None else float(memory_gb) * 2**30 / per_node,
            queue=asked.get("queue"),
            priority=asked.get("priority"),
            time=f"{timeout_s:.0f}s",
            signal=f"{warning}@{min(delay_s, int(timeout_s))}",
            grace_s=GRACE_S,
            requeue={"reasons": ["preempted", "node"], "exitCodes": [REQUEUED]},
            env={
                "SUBMITIT_EXECUTOR": "phalanx",
                "SUBMITIT_STDERR_TO_STDOUT": "1" if asked.get("stderr_to_stdout") else "",
                **(asked.get("env") or {}),
            },
        )

    def _make_submission_file_text(self, command: str, uid: str) -> str:
        raise NotImplementedError("jobs are submitted without a file")

    def _make_submission_command(self, submission_file_path: Path) -> list[str]:
        raise NotImplementedError("jobs are submitted without a command")

    @staticmethod
    def _get_job_id_from_submission_command(string: bytes | str) -> str:
        raise NotImplementedError("jobs are submitted without a command")


def _name(stem: str) -> str:
    """Return a job's unique name, derived from submitit's name for it."""
    kept = "".join(c if c.isascii() and c.isalnum() else "-" for c in stem.lower()).strip("-")
    return f"{kept[:30].strip('-') or 'submitit'}-{os.urandom(4).hex()}"


def run_member(folder: str) -> None:
    """Run this task's function, with its output in submitit's files. Never returns."""
    environment = PhalanxJobEnvironment()
    signal.pthread_sigmask(signal.SIG_BLOCK, {environment._usr_sig()})
    paths = utils.JobPaths(folder, job_id=environment.job_id, task_id=environment.global_rank)
    paths.folder.mkdir(parents=True, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    os.dup2(os.open(paths.stdout, flags, 0o644), 1)
    is_one = bool(os.environ.get("SUBMITIT_STDERR_TO_STDOUT"))
    os.dup2(1 if is_one else os.open(paths.stderr, flags, 0o644), 2)
    os.execv(sys.executable, [sys.executable, "-u", "-m", "submitit.core._submit", folder])


if __name__ == "__main__":
    run_member(sys.argv[1])
