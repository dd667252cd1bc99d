"""What a node knows of the jobs that it works for: their drivers and their environments."""

from __future__ import annotations

from phalanx.model.system_settings import SystemSettings
from phalanx.node.peers import Peer
from phalanx.protocol.cluster_messages import EnvironmentKnown, JobKnown
from phalanx.protocol.node_messages import JobSetup


class KnownJobs:
    """Jobs by their 4 bytes, environments by their keys."""

    def __init__(self, settings: SystemSettings) -> None:
        self.settings = settings
        """The cluster's, which processes are told when they begin."""
        self._jobs: dict[bytes, JobKnown] = {}
        self._environments: dict[bytes, dict[str, str]] = {}
        self._set_up: set[bytes] = set()
        """Workers to which their job was sent."""

    def job_known(self, message: JobKnown) -> None:
        """The head, a driver or another node describes a job."""
        self._jobs[message.job] = message

    def environment_known(self, message: EnvironmentKnown) -> None:
        """The head, a process or another node says what an environment's key stands for."""
        self._environments[message.key] = message.variables

    def get(self, job: bytes) -> JobKnown | None:
        """What is known of a job; None when it is nothing."""
        return self._jobs.get(job)

    def environment(self, key: bytes) -> dict[str, str]:
        """The variables of an environment; none when it is not known."""
        return self._environments.get(key, {})

    def drivers(self) -> set[bytes]:
        """The drivers of all jobs."""
        return {known.driver for known in self._jobs.values()}

    def forget(self, job: bytes) -> None:
        """Nothing runs for this job any more."""
        self._jobs.pop(job, None)

    def set_up(self, worker: Peer, job: bytes) -> None:
        """Tell a worker, once, what it needs to run its job's code.

        It leaves at once: it must not come after the first task, which the owner sends.
        """
        known = self._jobs.get(job)
        if known is None or worker.peer in self._set_up:
            return
        self._set_up.add(worker.peer)
        worker.send(
            JobSetup(
                job,
                known.path,
                known.directory,
                {},
                known.namespace,
                known.hook,
                known.queue,
                known.priority,
                known.authkey,
                self.settings,
                known.umask,
            )
        )

    def worker_gone(self, worker: bytes) -> None:
        """A worker has ended."""
        self._set_up.discard(worker)
