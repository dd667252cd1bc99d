"""`ray._private.state`: the cluster's nodes and their resources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from phalanx.api.cluster import (
    available_resources,
    cluster_resources,
    cluster_status,
    nodes,
    timeline,
)
from phalanx.api.runtime_context import get_runtime_context
from phalanx.api.session import running_engine
from phalanx.model.ids import JobID
from phalanx.model.lifecycle import DEAD
from phalanx.util.state import list_actors


def node_ids() -> list[str]:
    """Return the names of the resources that stand for the living nodes, such as
    `node:10.0.0.1`.
    """
    return [
        name
        for row in nodes()
        if row["Alive"]
        for name in row["Resources"]
        if name.startswith("node:") and name != "node:__internal_head__"
    ]


def current_node_id() -> str:
    """Return the resource that stands for this process's node."""
    here = get_runtime_context().get_node_id()
    return next(f"node:{row['NodeManagerAddress']}" for row in nodes() if row["NodeID"] == here)


def total_resources_per_node() -> dict[str, dict[str, float]]:
    """Return each living node's total resources, by its id."""
    return {row["NodeID"]: row["Resources"] for row in nodes() if row["Alive"]}


def available_resources_per_node() -> dict[str, dict[str, float]]:
    """Return each living node's available resources, by its id."""
    return {row.node_id: dict(row.available) for row in cluster_status().nodes if row.state != DEAD}


def actors(
    actor_id: str | None = None,
    job_id: JobID | None = None,
    actor_state_name: str | None = None,
) -> dict[str, Any]:
    """Return the rows of all actors by id, or only of those in this job and this state. With
    `actor_id`, return the row of that actor; empty if it does not exist.
    """
    filters = [("actor_id", "=", actor_id)] if actor_id is not None else []
    found = {row.actor_id: _actor_row(row) for row in list_actors(filters=filters, detail=True)}
    if actor_id is not None:
        return found.get(actor_id, {})
    return {
        name: row
        for name, row in found.items()
        if job_id is None or row["JobID"] == job_id.hex()
        if actor_state_name in (None, row["State"])
    }


def _actor_row(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "ActorID": row["actor_id"],
        "ActorClassName": row["class_name"],
        "IsDetached": row["is_detached"],
        "Name": row["name"],
        "JobID": row["job_id"],
        "Address": {"NodeID": row["node_id"] or ""},
        "State": row["state"],
        "NumRestarts": row["num_restarts"],
        "DeathCause": row["death_cause"],
        "Pid": row["pid"] or 0,
    }


class GlobalState:
    """The functions of this module, as methods of one object."""

    def actor_table(
        self, actor_id: str | None, job_id: JobID | None = None, actor_state_name: str | None = None
    ) -> dict[str, Any]:
        return actors(actor_id, job_id, actor_state_name)

    def node_table(self) -> list[dict[str, Any]]:
        """Return all nodes."""
        return nodes()

    def get_cluster_resources(self) -> dict[str, float]:
        """Return the total resources of all living nodes."""
        return cluster_resources()

    def cluster_resources(self) -> dict[str, float]:
        """Return the total resources of all living nodes."""
        return cluster_resources()

    def available_resources(self) -> dict[str, float]:
        """Return the available resources."""
        return available_resources()

    def get_node_labels(self) -> dict[str, dict[str, str]]:
        """Return each living node's labels, by its id."""
        return {row["NodeID"]: row["Labels"] for row in nodes() if row["Alive"]}

    def get_draining_nodes(self) -> dict[str, int]:
        """Return the draining nodes and the deadlines of the drains (0: no deadline)."""
        return {node.node_id: 0 for node in cluster_status().nodes if node.state == "DRAINING"}

    def get_cluster_config(self) -> None:
        """Return None: no autoscaler exists that could add nodes."""

    def get_max_resources_from_cluster_config(self) -> dict[str, float]:
        """Return an empty dict: the largest possible size of the cluster is unknown."""
        return {}

    def _check_connected(self) -> None:
        running_engine()


state = GlobalState()

__all__ = [
    "GlobalState",
    "actors",
    "available_resources",
    "available_resources_per_node",
    "cluster_resources",
    "current_node_id",
    "node_ids",
    "nodes",
    "state",
    "timeline",
    "total_resources_per_node",
]
