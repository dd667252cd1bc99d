"""The jobs that a node works for: their drivers and their environments."""

from __future__ import annotations

from phalanx.model.environments import DRIVER_DIRECTORY, ENVIRONMENT
from phalanx.model.system_settings import SystemSettings
from phalanx.node.dispatch import PeerMessageTable
from phalanx.node.peers import Peer
from phalanx.protocol.cluster_messages import EnvironmentKnown, JobKnown
from phalanx.protocol.node_messages import JobSetup


class KnownJobs:
    """The known jobs, by their ids of 4 bytes, and the environments, by their keys."""

    def __init__(self, settings: SystemSettings) -> None:
        self.settings = settings
        """The settings of the cluster. Each process gets them when it begins."""
        self._jobs: dict[bytes, JobKnown] = {}
        self._environments: dict[bytes, dict[str, str]] = {}
        self._set_up: set[bytes] = set()
        """The workers that were sent the description of their job."""

    def handle_from_nodes_in(self, table: PeerMessageTable) -> None:
        """Register the handlers for descriptions of jobs whose work other nodes send here."""
        table.on(JobKnown, lambda peer, message: self.job_known(message))
        table.on(EnvironmentKnown, lambda peer, message: self.environment_known(message))

    def job_known(self, message: JobKnown) -> None:
        """Store the description of a job. The description comes from the head, a driver or another
        node.
        """
        self._jobs[message.job] = message

    def environment_known(self, message: EnvironmentKnown) -> None:
        """Store the variables of an environment. The variables come from the head, a process or
        another node.
        """
        self._environments[message.key] = message.variables

    def get(self, job: bytes) -> JobKnown | None:
        """Return the description of a job; None if the job is not known."""
        return self._jobs.get(job)

    def environment(self, key: bytes) -> dict[str, str]:
        """Return the variables of an environment; empty if the environment is not known."""
        return self._environments.get(key, {})

    def variables_of(self, job: bytes, key: bytes) -> dict[str, str]:
        """Return the variables of a worker of a job in this environment.

        A worker with a software environment of its own may run in a container. The container needs
        the driver's directory before the worker can read the description of its job, so a variable
        names this directory.
        """
        variables, known = self.environment(key), self.get(job)
        if known is None or ENVIRONMENT not in variables:
            return variables
        return variables | {DRIVER_DIRECTORY: known.directory}

    def drivers(self) -> set[bytes]:
        """Return the drivers of all jobs."""
        return {known.driver for known in self._jobs.values()}

    def forget(self, job: bytes) -> None:
        """Forget a job for which nothing runs any more."""
        self._jobs.pop(job, None)

    def set_up(self, worker: Peer, job: bytes) -> None:
        """Send a worker everything that it needs to run the code of its job, unless it was sent
        before.

        The message is sent immediately, because it must arrive before the owner's first task.
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
        """Forget a worker that has ended."""
        self._set_up.discard(worker)
