"""Limits of users in a queue, as an annotation of the queue keeps them.

The annotation is a JSON object of users: `{"ana": {"running": 2}, "*": {"waiting": 100}}`. The row
`*` applies to users without a row of their own. A limit of a queue covers the work in that queue
and in the queues below it, even if those allow more.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import msgspec

ANNOTATION = "phalanx/limits"
"""The annotation of a queue with its limits."""
ANY_USER = "*"
LARGEST = 1e15
MOST_USERS = 10_000


class UserLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True,
                 omit_defaults=True):  # fmt: skip
    """The limits of one user in a queue. A field that is None sets no limit."""

    running: int | None = None
    """The largest number of jobs that run at the same time."""
    waiting: int | None = None
    """The largest number of jobs that wait at the same time; each task of an array counts."""
    gpus: float | None = None
    """The largest number of GPUs that running work holds."""
    priority: int | None = None
    """The highest priority of a job."""
    time_s: float | None = None
    """The longest time limit of a job, in seconds; also the limit of jobs that set none."""
    submits_per_s: float | None = None
    """The largest number of jobs that may be submitted per second, on average. Ten times this
    number, but at least one job, may be submitted at once.
    """


NAMES = UserLimits.__struct_fields__
NO_LIMITS = UserLimits()
_decoder = msgspec.json.Decoder(dict[str, UserLimits])


@lru_cache(maxsize=1_024)
def read_user_limits(text: str) -> Mapping[str, UserLimits]:
    """Return the limits in the annotation `text`, by user. Raises ValueError for a text in another
    form.
    """
    try:
        found = _decoder.decode(text) if text else {}
    except msgspec.MsgspecError as error:
        raise ValueError(f"limits of users: {error}") from None
    if len(found) > MOST_USERS:
        raise ValueError(f"limits of at most {MOST_USERS:,} users, not of {len(found):,}")
    for user, limits in found.items():
        for name in NAMES:
            number = getattr(limits, name)
            least = -LARGEST if name == "priority" else 0.0
            if number is not None and not least <= number <= LARGEST:
                raise ValueError(f"{name} of {user[:100]!r}: a limit is 0 or more, not {number:g}")
    return found


def written_user_limits(limits: Mapping[str, UserLimits]) -> str:
    """Return the text of the annotation for these limits; "" without limits."""
    kept = {user: one for user, one in sorted(limits.items()) if one != NO_LIMITS}
    return msgspec.json.encode(kept).decode() if kept else ""


def limits_of(limits: Mapping[str, UserLimits], user: str) -> UserLimits:
    """Return the limits of one user in a queue: the user's own row, else the row for all users."""
    return limits.get(user) or limits.get(ANY_USER) or NO_LIMITS
