"""Which queued classes of tasks may start on one node, so that none starves the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from phalanx.resources.sets import ResourceSet

LONGEST_HOLD_S = 10.0


@dataclass(frozen=True, kw_only=True)
class QueuedClass:
    """Equal tasks on one node: how many wait, how many run, and what one of them takes."""

    name: str
    request: ResourceSet
    queued: int
    running: int = 0


def fair_classes(
    classes: Sequence[QueuedClass], node_cpu_units: int, running_with_cpu: int | None = None
) -> tuple[str, ...]:
    """The classes that may start more, in order.

    Only when the queue asks for more CPUs than the node has is anyone held back: then a class
    whose running tasks exceed floor(all running tasks with CPUs / queued classes with CPUs).
    Classes without CPUs are never held back. `running_with_cpu`: all running tasks that hold
    CPUs, those of classes with nothing queued too; without it, those of `classes`.
    """
    waiting = [each for each in classes if each.queued]
    with_cpu = [each for each in waiting if each.request.get("CPU", 0)]
    asked = sum(each.request["CPU"] * each.queued for each in with_cpu)
    if asked <= node_cpu_units:
        return tuple(each.name for each in waiting)
    if running_with_cpu is None:
        running_with_cpu = sum(each.running for each in classes if each.request.get("CPU", 0))
    share = running_with_cpu // len(with_cpu)
    return tuple(
        each.name for each in waiting if not each.request.get("CPU", 0) or each.running <= share
    )


def class_cap(node_cpu_units: int, request: ResourceSet) -> int | None:
    """How many tasks of a class start without delay; None: any number, as they take no CPU."""
    units = request.get("CPU", 0)
    return (2 * node_cpu_units + units) // (2 * units) if units else None  # halves round up


def hold_s(running: int, cap: int | None) -> float:
    """Seconds that the next task of a class is held back when `running` of them run already.

    Beyond the cap it doubles with each task, so that tasks blocked on their children still let
    these start, while a flood of workers does not build up.
    """
    if cap is None or running < cap:
        return 0.0
    return min(LONGEST_HOLD_S, float(2 ** min(running - cap, 16)))


def dispatch(
    classes: Sequence[QueuedClass], available: ResourceSet, node_cpu_units: int
) -> tuple[str, ...]:
    """One round: the class of each task that starts, in order.

    Each class in turn is tested for fairness once, with what runs by then, and then starts tasks
    until its cap, its queue or the resources end.
    """
    running = {each.name: each.running for each in classes}
    queued = {each.name: each.queued for each in classes}
    started: list[str] = []
    for each in classes:
        now = [_with(other, queued, running) for other in classes]
        if each.name not in fair_classes(now, node_cpu_units):
            continue
        cap = class_cap(node_cpu_units, each.request)
        while queued[each.name] and each.request <= available:
            if hold_s(running[each.name], cap):
                break
            available = available - each.request
            queued[each.name] -= 1
            running[each.name] += 1
            started.append(each.name)
    return tuple(started)


def _with(each: QueuedClass, queued: Mapping[str, int], running: Mapping[str, int]) -> QueuedClass:
    return QueuedClass(
        name=each.name,
        request=each.request,
        queued=queued[each.name],
        running=running[each.name],
    )
