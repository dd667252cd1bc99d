"""Life cycles as tables of the allowed changes of state. A change that is not in the table raises
an error, which contains the earlier changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

PENDING_ARGS: Final = "PENDING_ARGS_AVAIL"
PENDING_NODE: Final = "PENDING_NODE_ASSIGNMENT"
SUBMITTED: Final = "SUBMITTED_TO_WORKER"
RUNNING: Final = "RUNNING"
BLOCKED: Final = "RUNNING_IN_RAY_GET"
FINISHED: Final = "FINISHED"
FAILED: Final = "FAILED"
INFEASIBLE: Final = "INFEASIBLE"

TASK: Final[Mapping[str, frozenset[str]]] = {
    # A task that is tried again returns to PENDING_NODE, and so does a task in any state whose
    # worker was lost. A task whose argument was missing when it was read waits for the argument
    # again.
    PENDING_ARGS: frozenset({PENDING_NODE, FAILED}),
    PENDING_NODE: frozenset({SUBMITTED, INFEASIBLE, FAILED}),
    INFEASIBLE: frozenset({PENDING_NODE, SUBMITTED, FAILED}),
    SUBMITTED: frozenset({RUNNING, PENDING_ARGS, PENDING_NODE, FINISHED, FAILED}),
    RUNNING: frozenset({BLOCKED, FINISHED, FAILED, PENDING_NODE}),
    BLOCKED: frozenset({RUNNING, FINISHED, FAILED, PENDING_NODE}),
    FINISHED: frozenset(),
    FAILED: frozenset({PENDING_NODE}),
}

DEPENDENCIES_UNREADY: Final = "DEPENDENCIES_UNREADY"
PENDING_CREATION: Final = "PENDING_CREATION"
ALIVE: Final = "ALIVE"
RESTARTING: Final = "RESTARTING"
DEAD: Final = "DEAD"

ACTOR: Final[Mapping[str, frozenset[str]]] = {
    DEPENDENCIES_UNREADY: frozenset({PENDING_CREATION, DEAD}),
    PENDING_CREATION: frozenset({ALIVE, RESTARTING, DEAD}),
    ALIVE: frozenset({RESTARTING, DEAD}),
    RESTARTING: frozenset({ALIVE, RESTARTING, DEAD}),
    DEAD: frozenset(),
}

DRAINING: Final = "DRAINING"

NODE: Final[Mapping[str, frozenset[str]]] = {
    # A dead node never returns: a node that was cut off for a long time joins as a new one.
    ALIVE: frozenset({DRAINING, DEAD}),
    DRAINING: frozenset({ALIVE, DEAD}),
    DEAD: frozenset(),
}

PENDING: Final = "PENDING"
PREPARED: Final = "PREPARED"
CREATED: Final = "CREATED"
REMOVED: Final = "REMOVED"
RESCHEDULING: Final = "RESCHEDULING"

GROUP: Final[Mapping[str, frozenset[str]]] = {
    # PREPARED: every bundle is reserved, and the nodes are asked to keep it. RESCHEDULING: some
    # bundles have lost their node, or a pinned group gets more bundles; if these are refused, the
    # group is CREATED again.
    PENDING: frozenset({PREPARED, REMOVED}),
    PREPARED: frozenset({CREATED, RESCHEDULING, REMOVED}),
    CREATED: frozenset({RESCHEDULING, REMOVED}),
    RESCHEDULING: frozenset({PREPARED, CREATED, REMOVED}),
    REMOVED: frozenset(),
}


class IllegalTransition(AssertionError):
    """Raised for a change of state that is not in the table."""


def move(
    table: Mapping[str, frozenset[str]], what: str, old: str, new: str, story: object = ""
) -> str:
    """Return `new` if the table allows the change from `old`.

    Otherwise raise IllegalTransition with the text of `story`. The text is made only in that case.
    """
    if new not in table[old]:
        raise IllegalTransition(f"{what}: {old} -> {new} is not allowed. {story}")
    return new
