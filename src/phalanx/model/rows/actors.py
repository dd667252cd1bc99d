"""Rows of actors."""

from __future__ import annotations

from phalanx.model.rows.row import Row


class ActorInfo(Row, frozen=True):
    """An actor, under the names of Ray's state API. Ids are in hex."""

    actor_id: str
    class_name: str
    state: str
    job_id: str
    name: str
    """The actor's name; "" for an actor without a name."""
    ray_namespace: str
    node_id: str
    """The id of the actor's node; "" while the actor is on no node."""
    pid: int
    is_detached: bool
    num_restarts: int
    required_resources: dict[str, float]
    placement_group_id: str | None
    death_cause: str
    """The reason why the actor is dead or restarts."""
