"""What a job waits for before it asks for places: the starts and the ends of other jobs."""

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
"""Slurm's, by their names there."""

MAX_DEPENDENCIES = 1_000
"""Of one job."""

WAITS: Final = ""
MET: Final = "met"
NEVER: Final = "never"


class Dependency(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Another job that has to begin or to end, and how.

    `job` is its `namespace/name`. Of a singleton it is `namespace/word`: among the jobs that name
    one word, or are called so, one at a time runs, in the order in which they were submitted.
    """

    kind: str
    job: str
    delay_s: float = 0.0
    """Of `after`: so long after the other began."""


class Dependencies(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """All that a job waits for; or, with `is_any`, one of it is enough."""

    needs: tuple[Dependency, ...]
    is_any: bool = False


class Outcome(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What has become of a dependency. Once it is not WAITS it stays."""

    state: str = WAITS
    since: float | None = None
    """Of one that is met: the time of day from which it counts; None: at once."""
    why: str = ""
    """Of one that cannot come true any more: the end of a sentence about the other job."""
