"""The node's effects of the table of actors: workers found, creations sent, news told."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from phalanx.control.actors import ActorRecord
from phalanx.protocol.messages import ActorUpdate, CreateActor
from phalanx.resources.sets import ResourceSet

if TYPE_CHECKING:
    from phalanx.engines.embedded.node_process import NodeShell

CONTROL = b"control"
"""The owner of actors' leases, as the lease machine knows it."""


class ActorShell:
    """Does what `ActorTable` asks for."""

    def __init__(self, shell: NodeShell) -> None:
        self._shell = shell

    def place_actor(self, record: ActorRecord) -> None:
        """Ask the lease machine for a worker."""
        group = record.strategy.get("group")
        self._shell.leases.want(
            time.monotonic(),
            owner=CONTROL,
            scheduling_class=0,
            actor=record.actor,
            place=ResourceSet.from_mapping(record.place),
            hold=ResourceSet.from_mapping(record.hold),
            count=1,
            job=record.job,
            environment=record.environment,
            priority=record.priority,
            group=None if group is None else (bytes.fromhex(group), record.strategy["bundle"]),
            strategy=record.strategy,
        )

    def withdraw_actor(self, record: ActorRecord) -> None:
        """It needs no worker."""
        self._shell.leases.withdraw_actor(record.actor)

    def create_on(self, record: ActorRecord) -> None:
        """Send the creation to the worker."""
        worker = self._shell.leases.workers.get(record.worker)
        connection = self._shell.peers.get(record.worker)
        if worker is None or connection is None:
            return
        lease = self._shell.leases.leases[worker.lease]
        group = lease.demand.group
        connection.post(
            CreateActor(
                record.actor,
                record.incarnation,
                record.creation,
                lease.resources,
                lease.devices,
                record.job,
                record.name,
                record.namespace,
                None if group is None else group[0],
                bool(record.strategy.get("capture")),
            )
        )

    def end_worker(self, record: ActorRecord, reason: str, force: bool) -> None:
        """End the actor's process."""
        worker = self._shell.leases.workers.get(record.worker)
        if worker is not None:
            self._shell.end_worker(worker, reason, force)

    def publish(self, record: ActorRecord, watchers: list[bytes]) -> None:
        """Tell the watchers."""
        update = ActorUpdate(
            record.actor,
            record.state,
            record.incarnation,
            record.worker,
            record.reason,
            record.error,
        )
        for watcher in watchers:
            connection = self._shell.peers.get(watcher)
            if connection is not None:
                connection.post(update)
