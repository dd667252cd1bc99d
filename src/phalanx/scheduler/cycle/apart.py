"""Says which tasks of a gang must be apart from each other, and how many of them nodes can hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from phalanx.scheduler.cycle.equivalence_class import EquivalenceClass
from phalanx.scheduler.cycle.matching import meets
from phalanx.scheduler.cycle.specs import PodTerm, Shape

HOSTNAME = "kubernetes.io/hostname"
NODE_KEYS = ("ray.io/node-id",)
"""The labels whose value differs from node to node."""


def keeps_away(term: PodTerm, owner: Shape, other: Shape) -> bool:
    """Whether a condition of `owner` on the places of tasks is about tasks of the shape `other`."""
    spaces = term.namespaces or (owner.namespace,)
    return other.namespace in spaces and meets(dict(other.labels), term.matches)


def places_over(key: str) -> str:
    """Return the word for the places that a label tells apart, in the plural."""
    if key in NODE_KEYS:
        return "nodes"
    return "machines" if key == HOSTNAME else f"values of the label {key}"


def apart_over(eq_class: EquivalenceClass) -> str:
    """Return the label over whose values tasks of this class must be spread, one for each value; ""
    if two of these tasks may be in one place.
    """
    shape = eq_class.shape
    if shape.ports:
        return NODE_KEYS[0]
    terms = shape.affinity.pod_anti_required if shape.affinity else ()
    return next((term.topology_key for term in terms if keeps_away(term, shape, shape)), "")


def held_apart(over: str, empty: Iterable[tuple[Mapping[str, str], int]]) -> int:
    """Return how many tasks that must be spread over the values of a label these nodes can hold.
    `empty`: for each node, its labels and the number of tasks for which it has room.
    """
    found: set[str] = set()
    elsewhere = 0
    for labels, room in empty:
        if over in NODE_KEYS:
            elsewhere += min(room, 1)
        elif over not in labels:
            elsewhere += room
        elif room:
            found.add(labels[over])
    return elsewhere + len(found)
