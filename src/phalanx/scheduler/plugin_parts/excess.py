"""Rules of reclaim that prevent endless exchanges: how much a queue may take, and from which
queues.

By Volcano's rule, a queue may reclaim while it is within its deserved amount of any one resource
that it requests. It may take from any queue that exceeds its deserved amount of a resource that the
victim uses. With two resources, two queues can then take the same room from each other forever
(volcano#4808, #4947).

Here only the resources that are short on the node count. The reclaiming queue must stay within its
deserved amount of each of them, and the victim's queue must exceed its deserved amount of at least
one. So a queue for which room was reclaimed is still within its deserved amounts of these
resources, and its new work cannot be reclaimed because of them. If a queue's quota names no short
resource, the resources that it names decide.
"""

from __future__ import annotations

import numpy as np

from phalanx.scheduler.cycle.amounts import EPSILON, Amount, Counts, Dimensions, Flags, Vector


def short_of(dims: Dimensions, room: Counts, request: Counts) -> Flags:
    """Return a mask of the requested resources that a node lacks.

    If the sums over the node's devices are enough, although no single device has enough, return all
    requested resources.
    """
    asked = (request > 0) & dims.compared
    short: Flags = asked & (room < request)
    return short if short.any() else asked


def may_take(
    dims: Dimensions, used: Vector, deserved: Amount, request: Vector, short: Flags
) -> bool:
    """Whether a queue may take more of the resources in the mask `short`. `used`: the amounts that
    the queue uses, with this request added.
    """
    within = used - deserved.v < EPSILON
    named = _named(dims, deserved)
    mine = short & named
    if mine.any():
        return bool(within[mine].all())
    return _is_rightful(dims, within & named, request)


def may_lose(dims: Dimensions, held: Vector, deserved: Amount, load: Vector, short: Flags) -> bool:
    """Whether a queue that holds the amounts `held` may lose a task because of the resources in the
    mask `short`. `load`: the task's request.
    """
    uses = (load > 0) & dims.compared & short
    within = held - deserved.v < EPSILON
    named = _named(dims, deserved)
    if (uses & named & ~within).any():
        return True
    return bool((uses & ~named).any()) and not _is_rightful(dims, within & named, load)


def _named(dims: Dimensions, deserved: Amount) -> Flags:
    named: Flags = np.where(dims.scalar, deserved.has, deserved.v >= EPSILON)
    return named


def _is_rightful(dims: Dimensions, granted: Flags, load: Vector) -> bool:
    return bool((granted & (load > 0) & dims.compared).any())
