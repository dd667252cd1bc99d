"""The jobs that a node works for: its drivers, what their workers need, environments by key."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

from phalanx.model.ids import process_id
from phalanx.protocol.cluster_messages import Answer, EnvironmentKnown, JobKnown
from phalanx.protocol.node_messages import JobSetup, Reply

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
        self._warming: dict[bytes, tuple[Connection, Reply]] = {}

    # ---- drivers -----------------------------------------------------------------------------

    def register(self, connection: Connection, token: int, args: dict[str, Any]) -> None:
        """A driver introduces itself: it gets its job from the control store, and its id."""

        def numbered(answer: Answer) -> None:
            if answer.error is not None:
                connection.post(Reply(token, None, answer.error))
                return
            job: bytes = answer.result
            driver = self.new_process(job)
            connection.peer, connection.tag = driver, "driver"
            self._shell.peers[driver] = connection
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
            self.known[job] = known
            self._shell.control.tell(known)
            for _ in range(self._shell.config.prestart):
                self._shell.start_worker(self._shell.leases.workers.prestart(job))
            introduced = {
                "process": driver,
                "node_id": self._shell.config.node_id,
                "address": self._shell.config.address,
            }
            self._reply_when_warm(connection, token, introduced)

        self._shell.control.ask(b"", "new_job", {}, numbered)

    def _reply_when_warm(self, connection: Connection, token: int, answer: dict[str, Any]) -> None:
        """Answer a new driver once its first worker is there: its first task need not wait."""
        if self._shell.config.prestart:
            self._warming[connection.peer[12:]] = (connection, Reply(token, answer))
        else:
            connection.post(Reply(token, answer))

    def end_warming(self, job: bytes) -> None:
        """The job's first worker is there, or cannot be."""
        waiting = self._warming.pop(job, None)
        if waiting is not None:
            waiting[0].post(waiting[1])

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
