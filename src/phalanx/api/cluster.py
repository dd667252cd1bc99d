"""What the cluster is and does: nodes, resources, a timeline of tasks."""

from __future__ import annotations

import json
from typing import Any

from phalanx.api.session import running_engine
from phalanx.model.rows.cluster import StatusInfo
from phalanx.protocol.requests.cluster import GetStatus


def nodes() -> list[dict[str, Any]]:
    """One dict a node, with its id, state, address, resources and labels."""
    return running_engine().nodes()


def cluster_status() -> StatusInfo:
    """The whole cluster at a glance, as `phalanx status` shows it. `defects` counts errors of the
    head's own by what they harmed; there are none when all is well."""
    return running_engine().ask(GetStatus())


def cluster_resources() -> dict[str, float]:
    """What all living nodes have."""
    return running_engine().cluster_resources()


def available_resources() -> dict[str, float]:
    """What is free now on nodes that do not drain; a resource that is used up is not named."""
    return running_engine().available_resources()


def cluster_events() -> list[dict[str, Any]]:
    """What passed between nodes lately: a dict an event, oldest first by its time `at`.

    `event` names the type, one of `phalanx.observe.cluster_events` and `gang_events`, which say
    what its fields mean. What stays on one node leaves no event, but for the members of gangs.
    Tasks of this program that ran on other nodes are among them as `Executed`, at the time when
    they ended.
    """
    rows = running_engine().cluster_events()
    rows.sort(key=lambda row: float(row["at"]))
    return rows


def timeline(filename: str | None = None) -> list[dict[str, Any]] | None:
    """Every finished task as a trace event, for chrome://tracing or Perfetto.

    Times are in microseconds since the epoch. Writes JSON to `filename` when given one.
    """
    rows = running_engine().timeline()
    if filename is None:
        return rows
    with open(filename, "w") as file:
        json.dump(rows, file)
    return None
