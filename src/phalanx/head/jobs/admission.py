"""Applies the time limits of a queue and of a job's owner to a job that enters the queue."""

from __future__ import annotations

import msgspec

from phalanx.errors import JobCommandError
from phalanx.head.queues.control import TimeLimits
from phalanx.manifests.cron import moment_text
from phalanx.model.jobs.spec import JobSpec
from phalanx.model.readable import length_text


def with_time_limit(spec: JobSpec, limits: TimeLimits, longest_s: float | None) -> JobSpec:
    """Return the job with a time limit: its own or, if it has none, the queue's default, but at
    most `longest_s`, its owner's limit. Raises JobCommandError if the job's own limit is longer
    than the queue allows.
    """
    limit_s = spec.timing.limit_s
    if limit_s is None:
        known = (one for one in (limits.default_s, longest_s) if one is not None)
        timing = msgspec.structs.replace(spec.timing, limit_s=min(known, default=None))
        return msgspec.structs.replace(spec, timing=timing)
    if limits.max_s is not None and limit_s > limits.max_s:
        raise JobCommandError(
            f"job {spec.uid}: time={length_text(limit_s)}: queue {spec.queue} allows at most "
            f"{length_text(limits.max_s)} (maxTime)"
        )
    return spec


def check_moments(spec: JobSpec, submitted: float, now: float) -> None:
    """Raise JobCommandError if a job cannot end by its deadline, even if it begins as early as its
    times allow. `now`: the wall-clock time. `submitted`: when the job was submitted.
    """
    timing = spec.timing
    if timing.deadline is not None:
        deadline = timing.deadline.since(submitted)
        begin = now if timing.begin is None else max(timing.begin.since(submitted), now)
        if begin + (timing.limit_s or 0.0) >= deadline:
            needs = f", and may run for {length_text(timing.limit_s)}" if timing.limit_s else ""
            raise JobCommandError(
                f"job {spec.uid}: deadline={moment_text(deadline)}: it cannot end by then, "
                f"because it begins at {moment_text(begin)} at the earliest{needs}; use a later "
                "deadline or a shorter time"
            )
