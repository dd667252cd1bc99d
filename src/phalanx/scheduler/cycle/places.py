"""The places that a plugin gives to all tasks of a job together, and the question by which an
action asks for them.

Some jobs have a right to places, for example to cells that their queue is promised. Actions ask for
these places instead of looking for nodes task by task, because only all tasks together show which
places are right. Such jobs are *entitled*.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass

from phalanx.scheduler.cycle.amounts import Flags
from phalanx.scheduler.cycle.jobs import Job


@dataclass(frozen=True, kw_only=True)
class PlacesAsk:
    """A question for the places of these tasks of a job.

    `within`: the nodes that may be used. `refused`: nodes that an earlier answer named, and that
    did not fit after all. `evicts`: whether work may be evicted for the tasks.
    """

    job: Job
    tasks: Sequence[int]
    within: Flags
    refused: Set[int] = frozenset()
    evicts: bool = False


@dataclass(frozen=True, kw_only=True)
class Places:
    """The answer to a `PlacesAsk`.

    `nodes`: a node for each task, or -1 for none. `among`: the number of nodes from which the node
    of the first task was chosen. `chooser`: the plugin that chose the nodes. `victims`: the tasks
    that must leave.
    """

    nodes: Sequence[int]
    among: int
    chooser: str
    victims: Sequence[int] = ()
