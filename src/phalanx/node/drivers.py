"""The drivers of a node: they introduce themselves, get their jobs, and jobs end with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from phalanx.node.control_link import ControlLink
from phalanx.node.dispatch import MessageTable
from phalanx.node.known_jobs import KnownJobs
from phalanx.node.leases import LeaseMachine
from phalanx.node.object_store import ObjectStore
from phalanx.node.peers import DRIVER, Peer, Peers
from phalanx.node.workers import WorkerRecord
from phalanx.protocol.cluster_messages import Answer, EnvironmentKnown, JobEnded, JobKnown
from phalanx.protocol.node_messages import Reply


class Workers(Protocol):
    """Who starts and ends worker processes."""

    def start_worker(self, worker: WorkerRecord) -> None:
        """Fork a worker."""
        ...

    def stop_worker(self, worker: WorkerRecord, reason: str, force: bool) -> None:
        """End a worker."""
        ...


class Drivers:
    """Those of this node, and the ends of all jobs."""

    def __init__(
        self,
        leases: LeaseMachine,
        workers: Workers,
        peers: Peers,
        jobs: KnownJobs,
        store: ObjectStore,
        control: ControlLink,
        new_process: Callable[[bytes], bytes],
        prestart: int,
        facts: dict[str, Any],
    ) -> None:
        """`new_process(job)`: an id for a process of this node that no other has. `prestart`: so
        many workers are started when a driver comes. `facts`: what else it is told of its node."""
        self._leases = leases
        self._workers = workers
        self._peers = peers
        self._jobs = jobs
        self._store = store
        self._control = control
        self._new_process = new_process
        self._prestart = prestart
        self._facts = facts
        self._warming: dict[bytes, tuple[Peer, Reply]] = {}
        """Answers that wait for the first worker of a job."""

    def handle_in(self, table: MessageTable) -> None:
        """Take what the head says about jobs."""
        table.on(JobEnded, self.job_ended)

    def register(self, connection: Peer, token: int, args: dict[str, Any]) -> None:
        """A driver introduces itself: it gets its job from the head, and its id."""

        def numbered(answer: Answer) -> None:
            if answer.error is not None:
                connection.post(Reply(token, None, answer.error))
                return
            job: bytes = answer.result
            driver = self._new_process(job)
            connection.peer, connection.tag = driver, DRIVER
            self._peers.add(connection)
            known = JobKnown(
                job,
                driver,
                args["path"],
                args["directory"],
                args["namespace"],
                args.get("hook", b""),
                args["log_to_driver"],
                args.get("queue", ""),
                args.get("priority", 0),
            )
            self._jobs.job_known(known)
            self._control.notify(known)
            for _ in range(self._prestart):
                self._workers.start_worker(self._leases.workers.prestart(job))
            self._reply(connection, job, Reply(token, {"process": driver, **self._facts}))

        self._control.ask(b"", "new_job", {}, numbered)

    def _reply(self, connection: Peer, job: bytes, reply: Reply) -> None:
        """Answer a new driver once its first worker is there: its first task need not wait."""
        if self._prestart:
            self._warming[job] = (connection, reply)
        else:
            connection.post(reply)

    def first_worker(self, job: bytes) -> None:
        """A worker of the job is there, or cannot be."""
        waiting = self._warming.pop(job, None)
        if waiting is not None:
            waiting[0].post(waiting[1])

    def define_environment(self, key: bytes, variables: dict[str, str]) -> None:
        """A process of this node defines an environment; other nodes may come to need it."""
        known = EnvironmentKnown(key, variables)
        self._jobs.environment_known(known)
        self._control.notify(known)

    def job_ended(self, message: JobEnded) -> None:
        """The job's driver is gone: its workers end, but those that are, or are about to be, the
        detached actors to keep."""
        leases = self._leases.leases
        for worker in self._leases.workers.of_job(message.job):
            lease = leases.get(worker.lease)
            if lease is None or lease.demand.actor not in message.keep:
                self._workers.stop_worker(worker, "its job ended", True)
        if not message.keep:
            self._jobs.forget(message.job)
        self._store.owner_gone(message.driver, message.files)
