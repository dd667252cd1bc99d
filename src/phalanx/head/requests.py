"""The questions that the control store answers, one method each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from phalanx.head.actors.table import ActorRecord
from phalanx.head.groups.record import Group
from phalanx.model.ids import PREFIX_BYTES
from phalanx.model.lifecycle import ALIVE, DEAD, DRAINING
from phalanx.protocol.cluster_messages import Answer, Ask, SetTotals
from phalanx.protocol.node_messages import Reply, Request
from phalanx.resources.sets import ResourceSet

if TYPE_CHECKING:
    from phalanx.head.control_plane import ControlPlane


class Visitor(Protocol):
    """The connection of somebody who is no node."""

    def send(self, message: Any) -> None:
        """Send it a message."""
        ...


class _Later:
    """The answer will be sent when it is known."""


LATER = _Later()
BATCH = "batch."
"""Questions that begin so are about queues and gangs."""


class ControlRequests:
    """Looks a question's method up here and answers with what it returns or raises."""

    def __init__(self, shell: ControlPlane) -> None:
        self._shell = shell
        self._methods: dict[str, Callable[..., Any]] = {
            "new_job": self._new_job,
            "view": self._view,
            "nodes": self._nodes,
            "cluster_resources": self._cluster_resources,
            "available_resources": self._available_resources,
            "register_actor": self._register_actor,
            "announce_actor": self._announce_actor,
            "get_actor": self._get_actor,
            "actor_handle": self._actor_handle,
            "watch_actor": self._watch_actor,
            "kill_actor": self._kill_actor,
            "list_named_actors": self._list_named_actors,
            "list_actors": self._list_actors,
            "list_jobs": self._list_jobs,
            "create_group": self._create_group,
            "watch_group": self._watch_group,
            "wait_group": self._wait_group,
            "remove_group": self._remove_group,
            "group_table": self._group_table,
            "named_group": self._named_group,
            "drain_node": self._drain_node,
            "set_totals": self._set_totals,
            "status": self._status,
            "cluster_events": self._cluster_events,
        }

    def answer(self, prefix: bytes, ask: Ask) -> None:
        """Answer one question; errors travel as class name and text."""
        method = self._methods.get(ask.method)
        if ask.method.startswith(BATCH):
            method = self._batch
        if method is None:
            error = ("ValueError", f"the control store knows no request {ask.method!r}")
            self._shell.reply(prefix, Answer(ask.token, None, error))
            return
        try:
            result = method(prefix, ask, **ask.args)
        except Exception as raised:
            error = (type(raised).__name__, str(raised))
            self._shell.reply(prefix, Answer(ask.token, None, error))
            return
        if result is not LATER:
            self._shell.reply(prefix, Answer(ask.token, result))

    def _batch(self, prefix: bytes, ask: Ask, **args: Any) -> Any:
        def reply(result: Any) -> None:
            self._shell.reply(prefix, Answer(ask.token, result))

        return self._shell.batch.answer(ask, reply)

    def answer_visitor(self, connection: Visitor, request: Request) -> None:
        """Answer who is no node, as the command line is on the head's machine."""
        try:
            result = self._for_visitor(connection, request)
            if result is LATER:
                return
            reply = Reply(request.token, result)
        except Exception as raised:
            reply = Reply(request.token, None, (type(raised).__name__, str(raised)))
        self._shell.state_store.when_written(lambda: connection.send(reply))

    def _for_visitor(self, connection: Visitor, request: Request) -> Any:
        if not request.method.startswith(BATCH):
            return self._methods[request.method](b"", Ask(0, b"", ""), **request.args)

        def reply(result: Any) -> None:
            connection.send(Reply(request.token, result))

        return self._shell.batch.answer(Ask(0, b"", request.method, request.args), reply)

    # ---- the cluster -------------------------------------------------------------------------

    def _new_job(self, prefix: bytes, ask: Ask) -> bytes:
        return self._shell.jobs.new()

    def _view(self, prefix: bytes, ask: Ask, since: int) -> tuple[int, list[Any]]:
        return self._shell.nodes.changes_since(since)

    def _nodes(self, prefix: bytes, ask: Ask) -> list[dict[str, Any]]:
        return [
            {
                "NodeID": record.node_id,
                "Alive": record.state != DEAD,
                "NodeManagerAddress": record.host or "127.0.0.1",
                "NodeManagerHostname": record.hostname or "localhost",
                "NodeManagerPort": record.port,
                "ObjectManagerPort": record.port,
                "ObjectStoreSocketName": "",
                "RayletSocketName": "",
                "MetricsExportPort": 0,
                "NodeName": record.host or "127.0.0.1",
                "alive": record.state != DEAD,
                "state": record.state,
                "DeathReasonMessage": record.reason if record.state == DEAD else "",
                "Resources": record.totals if record.state != DEAD else {},
                "Labels": record.labels,
            }
            for record in self._shell.nodes.all()
        ]

    def _cluster_resources(self, prefix: bytes, ask: Ask) -> dict[str, float]:
        return self._sum("total", (ALIVE, DRAINING))

    def _available_resources(self, prefix: bytes, ask: Ask) -> dict[str, float]:
        return {
            name: amount for name, amount in self._sum("available", (ALIVE,)).items() if amount > 0
        }

    def _sum(self, what: str, states: Collection[str]) -> dict[str, float]:
        summed: dict[str, float] = {}
        for record in self._shell.nodes.all():
            if record.state not in states:
                continue
            for name, amount in getattr(self._shell.nodes.row(record.node_id), what).items():
                summed[name] = round(summed.get(name, 0) + amount, 4)
        return summed

    def _drain_node(self, prefix: bytes, ask: Ask, node_id: str, reason: str) -> bool:
        return self._shell.nodes.drain(node_id, reason)

    def _set_totals(self, prefix: bytes, ask: Ask, node_id: str, totals: dict[str, float]) -> None:
        wanted = self._shell.nodes.totals(node_id, totals)
        self._shell.send_node(node_id, SetTotals(wanted))

    def _cluster_events(self, prefix: bytes, ask: Ask) -> _Later:
        self._shell.events.gather(prefix, ask.token)
        return LATER

    def _status(self, prefix: bytes, ask: Ask) -> dict[str, Any]:
        nodes = self._shell.nodes
        return {
            "nodes": [
                msgspec.structs.asdict(nodes.row(r.node_id))
                | {
                    "hostname": r.hostname,
                    "reason": nodes.reason(r.node_id),
                    "running": nodes.running(r.node_id),
                }
                for r in nodes.all()
            ],
            "address": self._shell.address,
            "actors": dict(Counter(a.state for a in self._shell.actor_table.all())),
            "jobs": self._shell.jobs.rows(),
            "groups": self._shell.group_table.table(),
            "store": self._shell.state_store.address,
        }

    # ---- actors ------------------------------------------------------------------------------

    def _register_actor(self, prefix: bytes, ask: Ask, **fields: Any) -> Any:
        actors = self._shell.actor_table
        if_exists = fields.pop("get_if_exists", False)
        existing = actors.named(fields["namespace"], fields.get("name") or "")
        is_again = existing is not None and existing.actor == fields["actor"]
        if existing is not None and if_exists and not is_again:
            return {"actor": existing.actor, "handle": existing.handle, "existed": True}
        record = ActorRecord(owner=ask.origin, job=ask.origin[12:], **fields)
        actors.register(record)
        return {"actor": record.actor, "handle": record.handle, "existed": False}

    def _announce_actor(self, prefix: bytes, ask: Ask, **fields: Any) -> None:
        fields.pop("get_if_exists", False)
        fields["creation"] = b""
        owner = ask.origin
        self._shell.actor_table.announce(ActorRecord(owner=owner, job=owner[12:], **fields))

    def _get_actor(self, prefix: bytes, ask: Ask, name: str, namespace: str) -> Any:
        record = self._shell.actor_table.named(namespace, name)
        if record is None:
            raise ValueError(
                f"Failed to look up actor with name '{name}'. This could be because it was never "
                f"made in namespace '{namespace}', has died, or its name is spelled otherwise."
            )
        return {"actor": record.actor, "handle": record.handle}

    def _actor_handle(self, prefix: bytes, ask: Ask, actor: bytes) -> Any:
        record = self._shell.actor_table.get(actor)
        if record is None:
            raise ValueError("the actor is not known")
        return {"actor": record.actor, "handle": record.handle}

    def _watch_actor(self, prefix: bytes, ask: Ask, actor: bytes) -> None:
        self._shell.actor_table.watch(actor, ask.origin, self._shell.clock.now())

    def _kill_actor(self, prefix: bytes, ask: Ask, actor: bytes, no_restart: bool) -> _Later:
        record = self._shell.actor_table.get(actor)
        worker = record.worker if record is not None else b""
        self._shell.actor_table.kill(actor, no_restart)
        token = ask.token
        self._shell.actors.when_gone(worker, lambda: self._shell.reply(prefix, Answer(token)))
        return LATER

    def _list_named_actors(
        self, prefix: bytes, ask: Ask, namespace: str | None
    ) -> list[tuple[str, str]]:
        return self._shell.actor_table.names(namespace)

    def _list_actors(self, prefix: bytes, ask: Ask) -> list[dict[str, Any]]:
        return [
            {
                "actor_id": r.actor.hex(),
                "class_name": r.class_name,
                "state": r.state,
                "job_id": r.job.hex(),
                "name": r.name,
                "namespace": r.namespace,
                "pid": r.pid,
                "node_id": self._node_of(r.worker),
                "num_restarts": r.restarts,
                "is_detached": r.detached,
                "death_cause": r.reason if r.state == DEAD else None,
            }
            for r in self._shell.actor_table.all()
        ]

    def _node_of(self, process: bytes) -> str:
        record = self._shell.nodes.of_prefix(process[:PREFIX_BYTES])
        return "" if record is None else record.node_id

    def _list_jobs(self, prefix: bytes, ask: Ask) -> list[dict[str, Any]]:
        return self._shell.jobs.rows()

    # ---- placement groups --------------------------------------------------------------------

    def _create_group(
        self,
        prefix: bytes,
        ask: Ask,
        group: bytes,
        bundles: list[dict[str, float]],
        strategy: str,
        name: str,
        detached: bool,
        selectors: list[dict[str, str]],
        soft_target: str | None = None,
    ) -> None:
        table = self._shell.group_table
        if table.get(group) is not None:
            return  # asked again after the head came back
        table.create(
            Group(
                group=group,
                name=name,
                strategy=strategy,
                bundles=[ResourceSet.from_mapping(b) for b in bundles],
                creator=ask.origin,
                detached=detached,
                selectors=selectors,
                soft_target=soft_target,
            ),
            self._shell.clock.now(),
        )

    def _watch_group(self, prefix: bytes, ask: Ask, group: bytes) -> bool | None:
        found = self._shell.group_table.get(group)
        if found is None:
            return None
        self._shell.groups.watch(found, prefix)
        return True

    def _wait_group(self, prefix: bytes, ask: Ask, group: bytes) -> Any:
        found = self._shell.group_table.get(group)
        known = self._shell.groups.wait(found, prefix, ask.token)
        return LATER if known is None else known

    def _remove_group(self, prefix: bytes, ask: Ask, group: bytes) -> _Later:
        self._shell.groups.when_freed(group, prefix, ask.token)
        if self._shell.group_table.remove(group, self._shell.clock.now()) is None:
            self._shell.groups.freed(group)
        return LATER

    def _group_table(self, prefix: bytes, ask: Ask) -> list[dict[str, Any]]:
        return self._shell.group_table.table()

    def _named_group(self, prefix: bytes, ask: Ask, name: str) -> dict[str, Any]:
        group = self._shell.group_table.named(name)
        if group is None:
            raise ValueError(f"Failed to look up placement group with name: {name}")
        return {"group": group.group, "bundles": [b.to_mapping() for b in group.bundles]}
