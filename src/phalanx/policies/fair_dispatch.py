"""Which queued classes of tasks may start on one node, so that none starves the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from phalanx.resources.sets import ResourceSet

LONGEST_HOLD_S = 10.0


@dataclass(frozen=True, kw_only=True)
class QueuedClass:
    """Equal tasks on one node: how many wait, how many run, and what one of them takes."""

    name: str
    request: ResourceSet
    queued: int
    running: int = 0


def is_crowded(classes: Sequence[QueuedClass], node_cpu_units: int) -> bool:
    """Whether the queue asks for more CPUs than the node has; only then is anyone held back."""
    return sum(each.request.get("CPU", 0) * each.queued for each in classes) > node_cpu_units


def has_fair_turn(each: QueuedClass, classes: Sequence[QueuedClass]) -> bool:
    """Whether a class may start more tasks while the node is crowded.

    It may not when more of it run than floor(all running tasks with CPUs / queued classes with
    CPUs). Classes without CPUs always may. `classes`: all that run or are queued.
    """
    if not each.request.get("CPU", 0):
        return True
    with_cpu = [other for other in classes if other.request.get("CPU", 0)]
    running = sum(other.running for other in with_cpu)
    return each.running <= running // max(1, sum(other.queued > 0 for other in with_cpu))


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
    crowded = is_crowded(classes, node_cpu_units)
    now = list(classes)
    started: list[str] = []
    for at, each in enumerate(classes):
        if not each.queued or (crowded and not has_fair_turn(each, now)):
            continue
        cap = class_cap(node_cpu_units, each.request)
        count = 0
        while count < each.queued and each.request <= available:
            if hold_s(each.running + count, cap):
                break
            available = available - each.request
            count += 1
        started.extend([each.name] * count)
        now[at] = replace(each, queued=each.queued - count, running=each.running + count)
    return tuple(started)
