"""The questions a node answers, one method each."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from phalanx.control.actors import ActorRecord
from phalanx.model.lifecycle import DEAD
from phalanx.node.groups import CREATED, Group
from phalanx.protocol.messages import Reply, Request
from phalanx.resources.sets import ResourceSet

if TYPE_CHECKING:
    from phalanx.engines.embedded.connection import Connection
    from phalanx.engines.embedded.node_process import NodeShell


class _Later:
    """The answer will be sent when it is known."""


LATER = _Later()


class NodeRequests:
    """Looks a request's method up here and answers with what it returns or raises."""

    def __init__(self, shell: NodeShell) -> None:
        self._shell = shell
        self._methods: dict[str, Callable[..., Any]] = {
            "register_driver": self._register_driver,
            "reserve": self._reserve,
            "environment": self._environment,
            "nodes": self._nodes,
            "cluster_resources": self._cluster_resources,
            "available_resources": self._available_resources,
            "set_resource": self._set_resource,
            "register_actor": self._register_actor,
            "announce_actor": self._announce_actor,
            "get_actor": self._get_actor,
            "actor_handle": self._actor_handle,
            "watch_actor": self._watch_actor,
            "kill_actor": self._kill_actor,
            "list_named_actors": self._list_named_actors,
            "list_actors": self._list_actors,
            "list_workers": self._list_workers,
            "list_jobs": self._list_jobs,
            "pending": self._pending,
            "drain_output": self._drain_output,
            "events": self._events,
            "store": self._store,
            "create_group": self._create_group,
            "wait_group": self._wait_group,
            "remove_group": self._remove_group,
            "group_table": self._group_table,
            "named_group": self._named_group,
        }

    def answer(self, connection: Connection, request: Request) -> None:
        """Reply to one request; errors travel as class name and text."""
        method = self._methods.get(request.method)
        if method is None:
            error = ("ValueError", f"the node knows no request {request.method!r}")
            connection.post(Reply(request.token, None, error))
            return
        try:
            result = method(connection, request.token, **request.args)
        except Exception as raised:
            error = (type(raised).__name__, str(raised))
            connection.post(Reply(request.token, None, error))
            return
        if result is not LATER:
            connection.post(Reply(request.token, result))

    def _register_driver(self, connection: Connection, token: int, **args: Any) -> Any:
        answer = self._shell.register_job(connection, args)
        self._shell.reply_when_warm(connection, token, answer)
        return LATER

    def _reserve(self, connection: Connection, token: int, wanted: int) -> int:
        return self._shell.store.reserve(connection.peer, wanted)

    def _environment(self, connection: Connection, token: int, key: bytes, env: Any) -> None:
        self._shell.environment(key, env)

    def _nodes(self, connection: Connection, token: int) -> list[dict[str, Any]]:
        config = self._shell.config
        return [
            {
                "NodeID": config.node_id,
                "Alive": True,
                "NodeManagerAddress": "127.0.0.1",
                "NodeManagerHostname": "localhost",
                "NodeManagerPort": 0,
                "ObjectManagerPort": 0,
                "ObjectStoreSocketName": self._shell.session.shared,
                "RayletSocketName": self._shell.session.socket_of(b"node"),
                "MetricsExportPort": 0,
                "NodeName": "127.0.0.1",
                "alive": True,
                "Resources": self._cluster_resources(connection, token),
                "Labels": config.labels,
            }
        ]

    def _cluster_resources(self, connection: Connection, token: int) -> dict[str, float]:
        return self._shell.resources.total()

    def _available_resources(self, connection: Connection, token: int) -> dict[str, float]:
        available = dict(self._shell.resources.available())
        ledger = self._shell.store.ledger
        if "object_store_memory" in available:
            left = ledger.capacity_bytes - ledger.used_bytes
            available["object_store_memory"] = float(max(left, 0))
        return {name: amount for name, amount in available.items() if amount > 0}

    def _set_resource(self, connection: Connection, token: int, name: str, amount: float) -> None:
        self._shell.resources.set_total(name, amount)
        self._shell.leases.dispatch(time.monotonic())

    def _register_actor(self, connection: Connection, token: int, **fields: Any) -> Any:
        if_exists = fields.pop("get_if_exists", False)
        existing = self._shell.actors.named(fields["namespace"], fields.get("name") or "")
        if existing is not None and if_exists:
            return {"actor": existing.actor, "handle": existing.handle, "existed": True}
        record = ActorRecord(owner=connection.peer, job=connection.peer[12:], **fields)
        self._shell.actors.register(record)
        return {"actor": record.actor, "handle": record.handle, "existed": False}

    def _announce_actor(self, connection: Connection, token: int, **fields: Any) -> None:
        fields.pop("get_if_exists", False)
        fields["creation"] = b""
        owner = connection.peer
        self._shell.actors.announce(ActorRecord(owner=owner, job=owner[12:], **fields))

    def _get_actor(self, connection: Connection, token: int, name: str, namespace: str) -> Any:
        record = self._shell.actors.named(namespace, name)
        if record is None:
            raise ValueError(
                f"Failed to look up actor with name '{name}'. This could be because it was never "
                f"made in namespace '{namespace}', has died, or its name is spelled otherwise."
            )
        return {"actor": record.actor, "handle": record.handle}

    def _actor_handle(self, connection: Connection, token: int, actor: bytes) -> Any:
        record = self._shell.actors.get(actor)
        if record is None:
            raise ValueError("the actor is not known")
        return {"actor": record.actor, "handle": record.handle}

    def _watch_actor(self, connection: Connection, token: int, actor: bytes) -> None:
        self._shell.actors.watch(actor, connection.peer, time.monotonic())

    def _kill_actor(
        self, connection: Connection, token: int, actor: bytes, no_restart: bool
    ) -> _Later:
        record = self._shell.actors.get(actor)
        workers = {record.worker} if record is not None else set()
        self._shell.actors.kill(actor, no_restart)
        self._shell.reply_when_gone(workers, connection, token)
        return LATER

    def _list_named_actors(
        self, connection: Connection, token: int, namespace: str | None
    ) -> list[tuple[str, str]]:
        return self._shell.actors.names(namespace)

    def _list_actors(self, connection: Connection, token: int) -> list[dict[str, Any]]:
        return [
            {
                "actor_id": r.actor.hex(),
                "class_name": r.class_name,
                "state": r.state,
                "job_id": r.job.hex(),
                "name": r.name,
                "namespace": r.namespace,
                "pid": r.pid,
                "node_id": self._shell.config.node_id,
                "num_restarts": r.restarts,
                "is_detached": r.detached,
                "death_cause": r.reason if r.state == DEAD else None,
            }
            for r in self._shell.actors.all()
        ]

    def _list_workers(self, connection: Connection, token: int) -> list[dict[str, Any]]:
        return [
            {
                "worker_id": w.worker_id.hex(),
                "pid": w.pid,
                "job_id": w.job.hex(),
                "is_alive": w.is_ready,
                "is_busy": bool(w.lease),
            }
            for w in self._shell.leases.workers.all()
        ]

    def _list_jobs(self, connection: Connection, token: int) -> list[dict[str, Any]]:
        return [
            {"job_id": key.hex(), "number": j.number, "start_time": j.started}
            for key, j in self._shell.jobs.items()
        ]

    def _pending(self, connection: Connection, token: int) -> list[dict[str, Any]]:
        return [
            {"resources": d.place.to_mapping(), "count": d.count, "actor": d.actor.hex()}
            for d in self._shell.leases.demands()
        ]

    def _drain_output(self, connection: Connection, token: int) -> _Later:
        self._shell.reply_when_drained(connection, token)
        return LATER

    def _events(self, connection: Connection, token: int) -> list[tuple[Any, ...]]:
        return self._shell.events

    def _store(self, connection: Connection, token: int) -> dict[str, int]:
        return self._shell.store.ledger.counts()

    # ---- placement groups --------------------------------------------------------------------

    def _create_group(
        self,
        connection: Connection,
        token: int,
        group: bytes,
        bundles: list[dict[str, float]],
        strategy: str,
        name: str,
        detached: bool,
        selectors: list[dict[str, str]],
    ) -> None:
        table = self._shell.leases.groups
        if name and table.named(name) is not None:
            raise ValueError(f"The placement group name {name!r} is taken.")
        for selector in selectors:
            for key in selector:
                if self._shell.config.labels.get(key) is None:
                    raise ValueError(f"no node has the label {key!r} that a bundle asks for")
        table.create(
            Group(
                group=group,
                name=name,
                strategy=strategy,
                bundles=[ResourceSet.from_mapping(b) for b in bundles],
                creator=connection.peer,
                detached=detached,
            )
        )
        self.place_groups()

    def place_groups(self) -> None:
        """Reserve what fits, and answer who waits for it. Called whenever resources came back."""
        created = self._shell.leases.groups.place()
        for group in created:
            for waiter, token in self._shell.group_waiters.pop(group.group, []):
                waiter.post(Reply(token, True))
        if created:
            self._shell.leases.dispatch(time.monotonic())

    def _wait_group(self, connection: Connection, token: int, group: bytes) -> Any:
        found = self._shell.leases.groups.get(group)
        if found is None or found.state != CREATED:
            if found is None or found.state == "REMOVED":
                return False
            self._shell.group_waiters.setdefault(group, []).append((connection, token))
            return LATER
        return True

    def _remove_group(self, connection: Connection, token: int, group: bytes) -> _Later:
        leases = self._shell.leases.leases.values()
        inside = [x for x in leases if x.demand.group is not None and x.demand.group[0] == group]
        self.remove_group(group)
        self._shell.reply_when_gone({x.worker.worker_id for x in inside}, connection, token)
        return LATER

    def remove_group(self, group_id: bytes) -> None:
        """Remove a group, end what runs in it, give its resources to others."""
        leases = self._shell.leases
        group = leases.groups.remove(group_id)
        if group is None:
            return
        for waiter, token in self._shell.group_waiters.pop(group_id, []):
            waiter.post(Reply(token, False))
        leases.group_removed(group_id, time.monotonic())
        leases.groups.release(group)
        leases.groups.forget_removed()
        self.place_groups()

    def _group_table(self, connection: Connection, token: int) -> list[dict[str, Any]]:
        return self._shell.leases.groups.table(self._shell.config.node_id)

    def _named_group(self, connection: Connection, token: int, name: str) -> dict[str, Any]:
        group = self._shell.leases.groups.named(name)
        if group is None:
            raise ValueError(f"Failed to look up placement group with name: {name}")
        return {"group": group.group, "bundles": [b.to_mapping() for b in group.bundles]}
