"""The jobs that a node works for: its drivers, what their workers need, environments by key."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from phalanx.model.ids import node_process_id, process_id
from phalanx.node.control_link import ask
from phalanx.node.requests import NodeAsker
from phalanx.protocol.cluster_messages import EnvironmentKnown, JobKnown
from phalanx.protocol.node_messages import JobSetup
from phalanx.protocol.requests.cluster import NewDriverJob
from phalanx.protocol.requests.node import Introduction, RegisterDriver
from phalanx.protocol.requests.request import LATER, Asker, Later

if TYPE_CHECKING:
    from phalanx.engines.embedded.connection import Connection
    from phalanx.engines.embedded.node.shell import NodeShell


class NodeJobs:
    """Jobs by their 4 bytes; the drivers of this node introduce themselves here."""

    def __init__(self, shell: NodeShell) -> None:
        self._shell = shell
        self.known: dict[bytes, JobKnown] = {}
        self.environments: dict[bytes, dict[str, str]] = {}
        self._set_up: set[bytes] = set()
        self._warming: dict[bytes, Callable[[], None]] = {}
        """The replies to drivers whose first worker is about to be there, by their jobs."""

    # ---- drivers -----------------------------------------------------------------------------

    def register(self, asker: Asker[Introduction], request: RegisterDriver) -> Later:
        """A driver introduces itself: it gets its job from the control store, and its id."""
        assert isinstance(asker, NodeAsker)
        connection = asker.peer

        def numbered(answer: Callable[[], bytes]) -> None:
            try:
                job = answer()
            except Exception as error:
                asker.fail(error)
                return
            driver = self.new_process(job)
            connection.peer, connection.tag = driver, "driver"
            self._shell.peers[driver] = connection
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
            )
            self.known[job] = known
            self._shell.control.tell(known)
            for _ in range(self._shell.config.prestart):
                self._shell.start_worker(self._shell.leases.workers.prestart(job))
            config = self._shell.config
            introduction = Introduction(driver, config.node_id, config.address)
            if config.prestart:  # once the first worker is there: the first task need not wait
                self._warming[job] = lambda: asker.reply(introduction)
            else:
                asker.reply(introduction)

        ask(self._shell.control, node_process_id(self._shell.prefix), NewDriverJob(), numbered)
        return LATER

    def end_warming(self, job: bytes) -> None:
        """The job's first worker is there, or cannot be."""
        reply = self._warming.pop(job, None)
        if reply is not None:
            reply()

    def new_process(self, job: bytes) -> bytes:
        """An id for a process of this node that no other has."""
        return process_id(self._shell.prefix, secrets.token_bytes(6), job)

    def driver_of(self, job: bytes) -> Any:
        """Where what concerns a job's driver is posted; None when it is gone."""
        known = self.known.get(job)
        return None if known is None else self._shell.way_to(known.driver)

    # ---- workers -----------------------------------------------------------------------------

    def set_up(self, connection: Connection, worker: bytes, job: bytes) -> None:
        """Tell a worker, once, what it needs to run its job's code."""
        known = self.known.get(job)
        if known is None or worker in self._set_up:
            return
        self._set_up.add(worker)
        connection.send(
            JobSetup(
                job,
                known.path,
                known.directory,
                {},
                known.namespace,
                known.hook,
                known.queue,
                known.priority,
            )
        )

    def worker_gone(self, worker: bytes) -> None:
        """A worker has ended."""
        self._set_up.discard(worker)
        self.end_warming(worker[12:])

    def environment(self, key: bytes, variables: dict[str, str]) -> None:
        """A process of this node defines an environment; other nodes may come to need it."""
        self.environments[key] = variables
        self._shell.control.tell(EnvironmentKnown(key, variables))

    def ended(self, job: bytes, keep: set[bytes]) -> None:
        """The job's driver is gone: its workers end, but those that are, or are about to be, the
        detached actors to `keep`."""
        leases = self._shell.leases.leases
        for worker in self._shell.leases.workers.of_job(job):
            lease = leases.get(worker.lease)
            if lease is None or lease.demand.actor not in keep:
                self._shell.stop_worker(worker, "its job ended", True)
        if not keep:
            self.known.pop(job, None)
