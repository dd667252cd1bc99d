"""Counts the preemptions of a day by kinds of preempted and of preempting work, and the attempts
that had hardly started.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from phalanx.model.attempts import PREEMPTED, Attempt

SHORT_S = 60.0
"""Seconds of run time below which a preempted attempt counts as hardly started."""
_SAID = re.compile(r"its place went to [^/]*/(\S+) \((\S+)\)")
_NOBODY = "nobody"


class Giving(msgspec.Struct, frozen=True, kw_only=True):
    """The number of attempts of one kind of work that one action preempted for another kind."""

    action: str
    kind: str
    to: str
    count: int


class GaveWay(msgspec.Struct, frozen=True, kw_only=True):
    """A summary of all preempted attempts. Members of a gang count separately."""

    count: int
    pairs: tuple[Giving, ...]
    """The pairs of kinds, the most frequent first."""
    short: int
    """The number of attempts that had run for less than `SHORT_S`."""
    jobs: int
    """The number of jobs and array tasks that were preempted at least once."""
    most: tuple[str, int]
    """The member that was preempted most often, and the number of its preemptions."""


def gave_way(attempts: Iterable[Attempt], kinds: Mapping[str, str]) -> GaveWay:
    """Count the preemptions in the history. `kinds` has the kind of work of each job, by the job's
    name.
    """
    found = [one for one in attempts if one.state == PREEMPTED]
    pairs: Counter[tuple[str, str, str]] = Counter()
    for one in found:
        said = _SAID.match(one.reason)
        to, action = said.groups() if said else (_NOBODY, "")
        pairs[action, _kind(one.job, kinds), _kind(to, kinds)] += 1
    members = Counter(f"{one.job}/{one.member}" for one in found)
    return GaveWay(
        count=len(found),
        pairs=tuple(
            Giving(action=action, kind=kind, to=to, count=count)
            for (action, kind, to), count in sorted(
                pairs.items(), key=lambda pair: (-pair[1], pair[0])
            )
        ),
        short=sum(one.elapsed_s < SHORT_S for one in found),
        jobs=len({one.job for one in found}),
        most=min(members.items(), key=lambda pair: (-pair[1], pair[0]), default=("", 0)),
    )


def _kind(job: str, kinds: Mapping[str, str]) -> str:
    return kinds.get(job.partition("[")[0], job)
