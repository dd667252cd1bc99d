"""How far a gang's placing came before it was undone, from which its explanation is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from phalanx.scheduler.cycle import jobs as j
from phalanx.scheduler.cycle.jobs import Job
from phalanx.scheduler.cycle.plan import Rejection


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One try to place a gang.

    `placed` tasks had room (or need none) when `failed` was the first that had none; -1 if no task
    failed. `why` is what a quota gave as the reason. `roles` and `subgroups` map names to how many
    were lacking.
    """

    placed: int
    failed: int = -1
    why: tuple[Rejection, ...] = ()
    roles: Mapping[str, int]
    subgroups: Mapping[str, int]


def attempt_of(
    job: Job, failed: int = -1, why: tuple[Rejection, ...] = (), *, besides: int = 0
) -> Attempt:
    """Return the attempt as the job stands before its places are taken back.

    `besides` counts tasks that could have been placed, though none was; all tasks of the gang are
    of one role then.
    """
    short = job.roles_short(pipelined=True)
    placed = job.min_available - job.shortfall() + job.counts[j.PIPELINED] + besides
    return Attempt(
        placed=placed,
        failed=failed,
        why=why,
        roles={role: lack - besides for role, lack in short.items() if lack > besides},
        subgroups=job.subjobs_short(pipelined=True),
    )
