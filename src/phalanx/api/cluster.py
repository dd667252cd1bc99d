"""The state of a cluster: nodes, resources, events and a timeline of tasks."""

from __future__ import annotations

import json
from typing import Any

from phalanx.api.session import running_engine
from phalanx.model.rows.cluster import StatusInfo
from phalanx.protocol.requests.cluster import GetStatus


def nodes() -> list[dict[str, Any]]:
    """Return a list with one dict for each node, with its id, state, address, resources and labels.

    The keys are Ray's, such as `NodeID`, `Alive` and `Resources`.

    Example:
        alive = [node["NodeID"] for node in phalanx.nodes() if node["Alive"]]
    """
    return running_engine().nodes()


def cluster_status() -> StatusInfo:
    """Return a summary of the whole cluster, as `phalanx status` shows it.

    The field `defects` counts the head's internal errors by the kind of thing that they harmed; it
    is empty without internal errors.

    Example:
        assert not phalanx.cluster_status().defects
    """
    return running_engine().ask(GetStatus())


def cluster_resources() -> dict[str, float]:
    """Return the total amount of each resource on all living nodes; memory is in bytes.

    Example:
        gpus = phalanx.cluster_resources().get("GPU", 0)
    """
    return running_engine().cluster_resources()


def available_resources() -> dict[str, float]:
    """Return the free amount of each resource on the nodes that are not draining.

    A resource without a free amount has no entry.

    Example:
        is_idle = phalanx.available_resources().get("CPU", 0) > 0
    """
    return running_engine().available_resources()


def cluster_events() -> list[dict[str, Any]]:
    """Return the recent events of work that involves several nodes: one dict for each event, sorted
    by the time `at`.

    `event` names the event's type, a class of `phalanx.observe.cluster_events` or `gang_events`;
    that class explains the other fields. A task that is submitted, run and read on one node causes
    no event. Events of gangs' members are always recorded. Tasks of this program that ran on other
    nodes appear as `Executed`, at the time when they ended.

    Example:
        executed = [row for row in phalanx.cluster_events() if row["event"] == "Executed"]
    """
    rows = running_engine().cluster_events()
    rows.sort(key=lambda row: float(row["at"]))
    return rows


def timeline(filename: str | None = None) -> list[dict[str, Any]] | None:
    """Return every finished task as a trace event, for chrome://tracing or Perfetto.

    Times are in microseconds since the epoch. With a `filename`, the events are written there as
    JSON and the function returns None.

    Example:
        phalanx.timeline("timeline.json")
    """
    rows = running_engine().timeline()
    if filename is None:
        return rows
    with open(filename, "w") as file:
        json.dump(rows, file)
    return None
