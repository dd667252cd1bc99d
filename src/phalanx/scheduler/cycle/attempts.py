"""Records how far an attempt to place a gang got before it was undone. Explanations of waiting
gangs use the record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from phalanx.scheduler.cycle import jobs as j
from phalanx.scheduler.cycle.jobs import Job
from phalanx.scheduler.cycle.plan import Rejection


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One attempt to place a gang.

    `placed`: the number of the gang's tasks that had room when the attempt ended, or that request
    nothing. `failed`: the first task that found no room; -1 if there is none. `why`: the reasons,
    if a quota stopped the attempt. `roles`: for each role, how many tasks it lacked. `subgroups`:
    for each subgroup policy, how many ready subgroups it lacked.
    """

    placed: int
    failed: int = -1
    why: tuple[Rejection, ...] = ()
    roles: Mapping[str, int]
    subgroups: Mapping[str, int]


def attempt_of(
    job: Job, failed: int = -1, why: tuple[Rejection, ...] = (), *, besides: int = 0
) -> Attempt:
    """Return a record of the attempt from the job's current state, before its places are taken
    back. `besides`: the number of further tasks that could have been placed but were not. It is
    above zero only for gangs whose tasks all have one role.
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
