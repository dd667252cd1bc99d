"""The drivers of a node. Each driver registers and gets a job, which ends when the driver ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from phalanx.model.ids import node_prefix, node_process_id
from phalanx.node.dispatch import MessageTable
from phalanx.node.effects import NodeSetup
from phalanx.node.head_link import HeadLink, ask
from phalanx.node.known_jobs import KnownJobs
from phalanx.node.leases.machine import LeaseMachine
from phalanx.node.object_store import ObjectStore
from phalanx.node.peers import DRIVER, Peers
from phalanx.node.process_history import ProcessHistory
from phalanx.node.requests import NodeAsker
from phalanx.node.workers import WorkerRecord
from phalanx.protocol.cluster_messages import EnvironmentKnown, JobEnded, JobKnown
from phalanx.protocol.messages import PROTOCOL_VERSION
from phalanx.protocol.requests.cluster import NewDriverJob
from phalanx.protocol.requests.node import Introduction, RegisterDriver
from phalanx.protocol.requests.request import LATER, Asker, Later


class Workers(Protocol):
    """Starts and ends worker processes."""

    def start_worker(self, worker: WorkerRecord) -> None:
        """Fork a worker."""
        ...

    def stop_worker(self, worker: WorkerRecord, reason: str, force: bool) -> None:
        """End a worker."""
        ...


class Drivers:
    """Registers the drivers of this node, and ends the work of jobs that are over."""

    def __init__(
        self,
        setup: NodeSetup,
        head: HeadLink,
        *,
        leases: LeaseMachine,
        workers: Workers,
        peers: Peers,
        jobs: KnownJobs,
        store: ObjectStore,
        new_process: Callable[[bytes], bytes],
        history: ProcessHistory,
    ) -> None:
        """`new_process(job)` returns the id of a new process of this node."""
        self._setup = setup
        self._head = head
        self._leases = leases
        self._workers = workers
        self._peers = peers
        self._jobs = jobs
        self._store = store
        self._new_process = new_process
        self._history = history
        self._node = node_process_id(node_prefix(setup.node_id))
        self._warming: dict[bytes, Callable[[], None]] = {}
        """By job: the replies to drivers that wait for the start of their job's first worker."""
        self._defined: dict[bytes, EnvironmentKnown] = {}
        """The environments that processes of this node have defined for jobs that are not over."""

    def handle_in(self, table: MessageTable) -> None:
        """Register the handler for the ends of jobs."""
        table.on(JobEnded, self.job_ended)

    def register(self, asker: Asker[Introduction], request: RegisterDriver) -> Later:
        """Register a driver. The head gives it a job, and this node a process id."""
        assert isinstance(asker, NodeAsker)
        connection = asker.peer
        python = self._setup.python
        if request.python not in ("", python):
            raise ValueError(
                f"This program runs on Python {request.python}, and the cluster's node on "
                f"{python}: neither can run what the other has pickled. Run the program on "
                f"Python {python}, or start a runtime of its own: init(address='local')."
            )

        if request.protocol not in (0, PROTOCOL_VERSION):
            raise ValueError(
                "This program has another release of Phalanx than the cluster's node: they speak "
                f"versions {request.protocol} and {PROTOCOL_VERSION} of the protocol. Install one "
                "release for both, or start a runtime of its own: init(address='local')."
            )

        def numbered(answer: Callable[[], bytes]) -> None:
            try:
                job = answer()
            except Exception as error:
                asker.fail(error)
                return
            driver = self._new_process(job)
            connection.peer, connection.tag = driver, DRIVER
            self._peers.add(connection)
            known = JobKnown(
                job,
                driver,
                request.path,
                request.directory,
                request.namespace,
                request.hook,
                request.log_to_driver,
                request.queue,
                request.priority,
                request.pid,
                request.entrypoint,
                request.authkey,
                request.umask,
                connection.principal,
            )
            self._jobs.job_known(known)
            self._history.began(driver, "DRIVER", request.pid)
            self._head.notify(known)
            for _ in range(self._setup.prestart):
                self._workers.start_worker(self._leases.workers.prestart(job))
            setup = self._setup
            introduction = Introduction(
                driver, setup.node_id, setup.address, self._jobs.settings, PROTOCOL_VERSION
            )
            if (
                self._setup.prestart
            ):  # the answer waits for the first worker, so that the first task need not wait
                self._warming[job] = lambda: asker.reply(introduction)
            else:
                asker.reply(introduction)

        ask(self._head, self._node, NewDriverJob(), numbered)
        return LATER

    def first_worker(self, job: bytes) -> None:
        """Tell the driver whether the first worker of its job is ready or could not be started."""
        reply = self._warming.pop(job, None)
        if reply is not None:
            reply()

    def worker_gone(self, worker: bytes) -> None:
        """Forget a worker that has ended, or could not be started."""
        self._jobs.worker_gone(worker)
        self.first_worker(worker[12:])

    def define_environment(self, key: bytes, variables: dict[str, str], job: bytes) -> None:
        """Store an environment that a process of this node defines, for the work of its driver's
        job. Other nodes may need it, too.
        """
        known = self._defined[key] = EnvironmentKnown(key, variables, job)
        self._jobs.environment_known(known)
        self._head.notify(known)

    def head_joined(self) -> None:
        """Tell the head, which may have restarted, the environments that other nodes may need."""
        for known in self._defined.values():
            self._head.notify(known)

    def job_ended(self, message: JobEnded) -> None:
        """End the workers of a job whose driver has ended.

        The workers of the detached actors in `message.keep` stay.
        """
        leases = self._leases.leases
        for worker in self._leases.workers.of_job(message.job):
            lease = leases.get(worker.lease)
            if lease is None or lease.demand.actor not in message.keep:
                self._workers.stop_worker(worker, "its job ended", True)
        if not message.keep:
            self._jobs.forget(message.job)
            defined = self._defined.values()
            self._defined = {one.key: one for one in defined if one.job != message.job}
        self._store.owner_gone(message.driver, message.files)
