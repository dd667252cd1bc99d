"""Dependencies of a job: starts and ends of other jobs, for which the job waits before it requests
resources.
"""

from __future__ import annotations

from typing import Final

import msgspec

AFTER: Final = "after"
AFTER_ANY: Final = "afterany"
AFTER_OK: Final = "afterok"
AFTER_NOT_OK: Final = "afternotok"
AFTER_CORR: Final = "aftercorr"
SINGLETON: Final = "singleton"
KINDS: Final = (AFTER_OK, AFTER_ANY, AFTER_NOT_OK, AFTER, AFTER_CORR, SINGLETON)
"""The kinds of dependencies, under Slurm's names."""

MAX_DEPENDENCIES = 1_000
"""The largest number of dependencies of one job."""

WAITS: Final = ""
MET: Final = "met"
NEVER: Final = "never"


class Dependency(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A condition on another job, which must begin or end in a certain way. `job` is that job's
    `namespace/name`.

    For a singleton, `job` is `namespace/word`. The jobs that give this word, or that have it as
    their name, run one at a time, in the order of their submission.
    """

    kind: str
    job: str
    delay_s: float = 0.0
    """For the kind `after`: the seconds that must pass after the other job began."""


class Dependencies(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """All dependencies of a job. With `is_any`, one met dependency is enough."""

    needs: tuple[Dependency, ...]
    is_any: bool = False


class Outcome(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Whether a dependency is met, is not met yet, or can never be met. Only WAITS can change
    later.
    """

    state: str = WAITS
    since: float | None = None
    """For a dependency that is met: the wall-clock time since which the job counts it as met; None
    stands for now.
    """
    why: str = ""
    """For a dependency that can never be met: the reason, worded as the end of a sentence whose
    subject is the other job.
    """
