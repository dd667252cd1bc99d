"""The studied policies by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from phalanx_research.timed.studied.antman import AntMan
from phalanx_research.timed.studied.live import Policy
from phalanx_research.timed.studied.muri import Muri, Rank, least_attained, least_left
from phalanx_research.timed.studied.themis import Themis
from phalanx_research.timed.workload import Job

Made = Callable[[str, Sequence[int], Sequence[Job]], Policy]
"""Creates a policy from its name, the GPUs of each machine, and all jobs."""


def _muri(rank: Rank) -> Made:
    return lambda name, gpus, jobs: Muri(name, rank, gpus, jobs)


_MADE: dict[str, Made] = {
    "antman": AntMan,
    "muri-l": _muri(least_attained),
    "muri-s": _muri(least_left),
    "themis": Themis,
}
STUDIED = tuple(_MADE)
"""The names of the studied policies."""


def studied(name: str, gpus: Sequence[int], jobs: Sequence[Job]) -> Policy:
    """Return a policy for machines with these numbers of GPUs, and these jobs.

    Raises KeyError for a name that is not in STUDIED, and WorkloadError for jobs without the facts
    that the policy needs.
    """
    return _MADE[name](name, gpus, jobs)
