"""Finished tasks and nodes in the forms that other tools know."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec

from phalanx.model.ids import PREFIX_BYTES, task_id_bytes
from phalanx.model.lifecycle import DEAD, PENDING_ARGS, PENDING_NODE, RUNNING, SUBMITTED
from phalanx.model.rows.cluster import NodeInfo
from phalanx.observe.cluster_events import Executed
from phalanx.observe.task_journal import Run
from phalanx.owner.actors.client import PendingCall
from phalanx.owner.tasks.records import PendingTask


def trace_event(run: Run) -> dict[str, Any]:
    """A run for chrome://tracing or Perfetto; times in microseconds since the epoch."""
    return {
        "cat": "task",
        "name": run.name,
        "ph": "X",
        "pid": "node",
        "tid": f"worker:{run.worker.hex()[:8]}",
        "ts": run.started * 1e6,
        "dur": max(run.ended - run.started, 0) * 1e6,
        "args": {"task": run.number, "state": run.state, "attempt": run.attempt},
        "cname": "terrible" if run.state == "FAILED" else "good",
    }


def finished_row(run: Run) -> dict[str, Any]:
    """A run as `Engine.tasks` has it."""
    return {
        "number": run.number,
        "name": run.name,
        "state": run.state,
        "attempt_number": run.attempt,
        "worker_id": run.worker.hex(),
        "start_time_ms": int(run.started * 1000),
        "end_time_ms": int(run.ended * 1000),
    }


def pending_task_row(task: PendingTask) -> dict[str, Any]:
    """A task that has not ended as `Engine.tasks` has it: it runs once a worker has it."""
    return {
        "number": task.number,
        "name": task.template.name,
        "state": RUNNING if task.state == SUBMITTED else task.state,
        "attempt_number": task.attempt,
        "worker_id": None if task.worker is None else task.worker.worker.hex(),
        "type": "NORMAL_TASK",
    }


def pending_call_rows(calls: Collection[PendingCall]) -> list[dict[str, Any]]:
    """Calls that have not ended as `Engine.tasks` has them."""
    begun = {client: frozenset(client.begun()) for client in {call.actor for call in calls}}
    return [_pending_call_row(call, call.number in begun[call.actor]) for call in calls]


def _pending_call_row(call: PendingCall, has_begun: bool) -> dict[str, Any]:
    if has_begun:
        state = RUNNING
    elif call.number in call.actor.inflight:
        state = "PENDING_ACTOR_TASK_ORDERING_OR_CONCURRENCY"
    else:
        state = PENDING_ARGS if call.missing else PENDING_NODE
    return {
        "number": call.number,
        "name": f"{call.actor.name}.{call.method}",
        "state": state,
        "attempt_number": call.attempt,
        "worker_id": call.actor.worker.hex() or None,
        "actor_id": call.actor.actor.hex(),
        "type": "ACTOR_TASK",
    }


def executed_elsewhere(run: Run, owner: bytes) -> dict[str, Any]:
    """A run of a task of `owner` on another node than its own."""
    event = Executed(
        at=run.ended,
        node=run.worker[:PREFIX_BYTES].hex(),
        task=task_id_bytes(owner, run.number).hex(),
        name=run.name,
        state=run.state,
        worker=run.worker.hex(),
        started=run.started,
    )
    row: dict[str, Any] = msgspec.to_builtins(event)
    return row


def node_row(node: NodeInfo) -> dict[str, Any]:
    """A node in the form of `ray.nodes()`."""
    is_alive = node.state != DEAD
    return {
        "NodeID": node.node_id,
        "Alive": is_alive,
        "NodeManagerAddress": node.host or "127.0.0.1",
        "NodeManagerHostname": node.hostname or "localhost",
        "NodeManagerPort": node.port,
        "ObjectManagerPort": node.port,
        "ObjectStoreSocketName": "",
        "RayletSocketName": "",
        "MetricsExportPort": 0,
        "NodeName": node.host or "127.0.0.1",
        "alive": is_alive,
        "state": node.state,
        "DeathReasonMessage": "" if is_alive else node.reason,
        "Resources": node.total if is_alive else {},
        "Labels": node.labels,
    }
