"""Finished tasks and nodes, in the forms that other tools read."""

from __future__ import annotations

from typing import Any

import msgspec

from phalanx.model.ids import PREFIX_BYTES, task_id_bytes
from phalanx.model.lifecycle import DEAD
from phalanx.model.rows.cluster import NodeInfo
from phalanx.observe.cluster_events import Executed
from phalanx.observe.task_journal import Run


def trace_event(run: Run) -> dict[str, Any]:
    """Return a run as an event for chrome://tracing or Perfetto, with times in microseconds."""
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


def executed_elsewhere(run: Run, owner: bytes) -> dict[str, Any]:
    """Return the event that says that a task of `owner` ran on another node."""
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
    """Return a node in the form of `ray.nodes()`."""
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
        "NodeName": node.name or node.host or "127.0.0.1",
        "alive": is_alive,
        "state": node.state,
        "DeathReasonMessage": "" if is_alive else node.reason,
        "Resources": node.total if is_alive else {},
        "Labels": node.labels,
    }
