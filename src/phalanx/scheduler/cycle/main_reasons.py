"""Chooses the main reasons why work waits: the few reasons without which the work would not wait.

Reasons that remain even when other work ends come first: a label that no node has, an amount above
a cap, a task larger than any node. Then come quotas that are full now, then resources that must
become free on nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from phalanx.scheduler.cycle.node_counts import STATIC, scarcity
from phalanx.scheduler.cycle.plan import Rejection

OF_QUOTAS = frozenset(
    {
        *("queue-missing", "queue-closed", "queue-not-leaf", "queue-tree", "queue-quota"),
        *(
            "queue-capability",
            "namespace-quota",
            "user-jobs",
            "user-limit",
            "license",
            "license-none",
        ),
    }
)
"""Reasons that make a task wait even where there is room."""
OF_ITSELF = frozenset(
    {
        *("podgroup-missing", "gang-tasks-missing", "gang-role-short", "gang-subgroups-short"),
        *("reservation-begins", "reservation-over", "reservation-not-its-own"),
        *("reservation-closed", "promised", "cluster-overcommitted"),
    }
)
"""Reasons that make a podgroup wait even if there is room now."""
OF_OTHERS = frozenset({"fits-alone", "waiting-for-gang"})
"""Reasons of tasks that could start if their gang could, or once evictions end."""
HINTS = frozenset(
    {
        *("behind", "gang-member", "gang-role", "gang-subgroup"),
        *("not-let-in", "not-tried", "tried"),
    }
)
"""Reasons that explain nothing by themselves. They are omitted if there is any other reason."""
FIXED = frozenset(
    {
        *("queue-missing", "queue-closed", "queue-not-leaf", "queue-tree", "license-none"),
        *("podgroup-missing", "gang-tasks-missing", "gang-role-short", "gang-subgroups-short"),
        *("reservation-over", "reservation-not-its-own", "reservation-closed", "no-nodes"),
        *("never-fits", "never-fits-there", "gang-never-fits"),
    }
)
"""Reasons that remain even when other work ends."""
_CAPS = frozenset({"queue-quota", "queue-capability", "namespace-quota", "user-limit"})
_SUBJECTS = ("resource", "queue", "who", "labels", "license", "role", "policy", "task")
"""The details that say what a reason is about. Of several reasons of one kind about the same thing,
only the first is shown.

Amounts are not among these details. So a quota is shown only once, with the request of the gang,
and not once more with the request of each task.
"""
_ROUNDING = 1e-9
_MAIN = 3
"""The largest number of reasons that count as main ones."""


class WaitingTasks(NamedTuple):
    """Tasks of a gang that wait for the same reasons: their number, and how many of them the gang's
    minimum needs.
    """

    reasons: tuple[Rejection, ...]
    tasks: int = 1
    needed: int = 1


def main_reasons(
    of_group: Sequence[Rejection], waiting: Sequence[WaitingTasks]
) -> tuple[Rejection, ...]:
    """Return the main reasons why the podgroup waits, at most `_MAIN`.

    They come from the first of these groups that has any: reasons that remain even when other work
    ends, reasons of quotas, reasons of the podgroup itself, reasons of nodes, all other reasons. If
    a reason applies to only some tasks of a gang, its details have the number of these tasks
    (`tasks`) and of all waiting tasks (`in_gang`).
    """
    needed = [one for one in waiting if one.needed > 0] or list(waiting)
    fixed = [one for one in of_group if is_fixed(one)]
    fixed += [r for one in needed for r in _named(fixed_reasons(one.reasons), one, waiting)]
    if fixed:
        return _first(fixed)
    for decisive in (OF_QUOTAS, OF_ITSELF):
        of_tasks = [r for one in needed for r in one.reasons if r.reason in decisive]
        found = [r for r in of_group if r.reason in decisive] + of_tasks
        if found:
            return _first(sorted(found, key=lambda r: scarcity(r.detail.get("resource", ""))))
    blocked = [one for one in needed if one.reasons[-1].reason not in OF_OTHERS]
    if blocked:
        return _first([r for one in blocked for r in _named(_of_nodes(one.reasons), one, waiting)])
    return _first(_telling(of_group) or [r for one in needed for r in one.reasons])


def fixed_reasons(found: Sequence[Rejection]) -> list[Rejection]:
    """Return those of a task's reasons that remain even when other work ends."""
    fixed = [one for one in found if is_fixed(one)]
    of_nodes = [one for one in found if one.reason not in OF_QUOTAS]
    if of_nodes and all(one.reason in STATIC for one in of_nodes):
        fixed += of_nodes
    return fixed


def is_fixed(one: Rejection) -> bool:
    """Whether the reason remains even when other work ends, because it is of a fixed kind or
    because the request exceeds a cap.
    """
    if one.reason in _CAPS:
        return "asked" in one.detail and one.detail["asked"] > one.detail["limit"] * (1 + _ROUNDING)
    return one.reason in FIXED


def _of_nodes(found: Sequence[Rejection]) -> Sequence[Rejection]:
    """Return each reason that turned all nodes away, then the static reasons. If no reason turned
    all nodes away, return all reasons except hints.
    """
    own = _telling(found)
    full = [one for one in own if one.count == one.detail.get("of")]
    return [*full, *(one for one in own if one.reason in STATIC)] if full else own


def _named(
    found: Sequence[Rejection], some: WaitingTasks, waiting: Sequence[WaitingTasks]
) -> Sequence[Rejection]:
    """Return the reasons `found`. If other tasks of the gang wait for other reasons, add to the
    details how many tasks of the gang wait for the reasons `found`.
    """
    if len(waiting) == 1:
        return found
    count = {"tasks": some.tasks, "in_gang": sum(one.tasks for one in waiting)}
    return [msgspec.structs.replace(one, detail={**one.detail, **count}) for one in found]


def _telling(found: Sequence[Rejection]) -> Sequence[Rejection]:
    return [one for one in found if one.reason not in HINTS] or found


def _first(found: Sequence[Rejection]) -> tuple[Rejection, ...]:
    """Return the first reason about each thing (see `_SUBJECTS`), at most `_MAIN` reasons."""
    once: dict[tuple[object, ...], Rejection] = {}
    for one in found:
        subject = (one.detail.get(name) for name in _SUBJECTS)
        once.setdefault((one.reason, *subject), one)
    return tuple(once.values())[:_MAIN]
