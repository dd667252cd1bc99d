"""The sums of attempts in each hour, by user and queue, and the sums over several hours.

Waiting times are counted in buckets. Each bucket is a twentieth wider than the bucket before it, so
a percentile is at most 5 % too high.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import msgspec

from phalanx.model.attempts import MEMBER_COMPLETED, Attempt, Used

HOUR_S = 3600
_GROWTH = math.log(1.05)
MAX_BUCKET = 400
"""The number of the last bucket; 1.05^400 s is ten years."""
LONGEST_HOURS = 24 * 366
"""The largest number of hours over which an attempt's usage is spread. The usage of a longer
attempt counts in its last hours.
"""


class HourSum(msgspec.Struct, array_like=True, kw_only=True, gc=False):
    """Sums over attempts. In the sums of one hour, each attempt counts only with its part in that
    hour.

    Fields that end in `_s` are resource-seconds: held or, where the usage was measured, used or
    idle. Starts and ends of attempts count in the hour in which they happened.
    """

    attempts: int = 0
    """The number of attempts that ended."""
    completed: int = 0
    cpu_s: float = 0.0
    cpu_used_s: float = 0.0
    cpu_known_s: float = 0.0
    """The part of `cpu_s` from attempts with known usage."""
    cpu_idle_s: float = 0.0
    memory_s: float = 0.0
    """The byte-seconds of memory that attempts requested."""
    gpu_s: float = 0.0
    gpu_used_s: float = 0.0
    gpu_known_s: float = 0.0
    gpu_idle_s: float = 0.0
    waits: dict[int, int] = {}
    """The number of jobs in each bucket of waiting times."""

    def add(self, other: HourSum) -> None:
        """Add the sums of `other`."""
        for name in self.__struct_fields__:
            if name != "waits":
                setattr(self, name, getattr(self, name) + getattr(other, name))
        for bucket, count in other.waits.items():
            self.waits[bucket] = self.waits.get(bucket, 0) + count

    def wait(self, part: float) -> float | None:
        """Return the waiting time in seconds that this part of the jobs (from 0 to 1) did not
        exceed; None if no job began. The part 0.5 gives the median.
        """
        wanted, passed = part * sum(self.waits.values()), 0
        for bucket, count in sorted(self.waits.items()):
            passed += count
            if passed >= wanted:
                return longest_of(bucket)
        return None


def bucket_of(wait_s: float) -> int:
    """Return the number of the bucket for a wait. Bucket 0 is for waits of at most a second."""
    if wait_s <= 1:
        return 0
    return min(math.ceil(math.log(wait_s) / _GROWTH - 1e-9), MAX_BUCKET)


def longest_of(bucket: int) -> float:
    """Return the longest wait of a bucket, in seconds."""
    return math.exp(_GROWTH * bucket)


def attempt_sums(attempt: Attempt) -> dict[int, HourSum]:
    """Return the sums of one attempt in each hour, by the number of hours since the epoch. The
    attempt's usage is spread evenly over its hours.
    """
    last = math.floor(attempt.ended / HOUR_S)
    parts = {hour: _held(attempt, share) for hour, share in _shares(attempt).items()}
    if attempt.used is not None:
        _add_use(parts, attempt, attempt.used)
    end = parts.setdefault(last, HourSum())
    end.attempts += 1
    end.completed += attempt.state == MEMBER_COMPLETED
    if attempt.waited_s is not None:
        begin = parts.setdefault(math.floor(attempt.started / HOUR_S), HourSum())
        begin.waits[bucket_of(attempt.waited_s)] = 1
    return parts


def usage_sums(attempt: Attempt, used: Used) -> dict[int, HourSum]:
    """Return the sums of an attempt's usage in each hour. If the usage becomes known only after the
    attempt was counted, these sums are added.
    """
    parts = {hour: HourSum() for hour in _shares(attempt)}
    _add_use(parts, attempt, used)
    return parts


def _shares(attempt: Attempt) -> dict[int, float]:
    """Return how many seconds of an attempt are in each hour."""
    started, ended = attempt.started, attempt.ended
    first, last = math.floor(started / HOUR_S), math.floor(ended / HOUR_S)
    if last - first >= LONGEST_HOURS:
        first = last - LONGEST_HOURS + 1
    shares = {
        hour: min(ended, (hour + 1) * HOUR_S) - max(started, hour * HOUR_S)
        for hour in range(first, last + 1)
    }
    shares[first] = max(shares[first], 0.0) + max(first * HOUR_S - started, 0.0)
    return shares


def _held(attempt: Attempt, share_s: float) -> HourSum:
    return HourSum(
        cpu_s=attempt.cpus * share_s,
        memory_s=attempt.memory * share_s,
        gpu_s=attempt.gpus * share_s,
    )


def _add_use(parts: Mapping[int, HourSum], attempt: Attempt, used: Used) -> None:
    shares, whole_s = _shares(attempt), attempt.elapsed_s
    for hour, share_s in shares.items():
        part = share_s / whole_s if whole_s else 1.0
        one = parts[hour]
        one.cpu_used_s += used.cpu_s * part
        one.cpu_known_s += attempt.cpus * share_s
        one.cpu_idle_s += min(used.cpu_idle_s * part, share_s) * attempt.cpus
        if used.gpus:
            # A shared device counts by the part that was held.
            of_device = attempt.gpus / used.gpus
            one.gpu_used_s += used.gpu_mean * attempt.gpus * share_s
            one.gpu_known_s += attempt.gpus * share_s
            one.gpu_idle_s += min(used.gpu_idle_s * part, used.gpus * share_s) * of_device


def total_of(sums: Iterable[HourSum]) -> HourSum:
    """Return the sum of several sums."""
    total = HourSum()
    for one in sums:
        total.add(one)
    return total
