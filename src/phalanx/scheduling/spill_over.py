"""What moves to a node that joined, or that got more resources: the stuck, and one that waits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from phalanx.resources.sets import EMPTY, ResourceSet


@dataclass(frozen=True, kw_only=True)
class SpillOver:
    """`moved`: the tasks that go, in order. `load`: what they ask for, to be counted there."""

    moved: tuple[str, ...]
    load: ResourceSet


def spill_over(
    infeasible: Iterable[tuple[str, ResourceSet]],
    ready: Sequence[tuple[str, ResourceSet]],
    total: ResourceSet,
    *,
    joined: bool = True,
) -> SpillOver:
    """All infeasible tasks that the node's total satisfies, and at most one ready task.

    Every other node offers one ready task when a node joins, so that load moves over slowly.
    `joined` False: the node only got more resources, and no ready task is moved.
    """
    moved = [(task, request) for task, request in infeasible if request <= total]
    if joined:
        fitting = ((task, request) for task, request in ready if request <= total)
        moved.extend(task for task in [next(fitting, None)] if task is not None)
    return SpillOver(
        moved=tuple(task for task, _ in moved),
        load=sum((request for _, request in moved), EMPTY),
    )
