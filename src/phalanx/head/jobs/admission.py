"""Applies a queue's time limits to a job when the queue takes it."""

from __future__ import annotations

import msgspec

from phalanx.errors import JobCommandError
from phalanx.head.queues.control import TimeLimits
from phalanx.manifests.cron import moment_text
from phalanx.model.jobs.spec import JobSpec
from phalanx.model.readable import length_text


def with_queue_times(spec: JobSpec, limits: TimeLimits) -> JobSpec:
    """Return the job, with its queue's default time limit if the job has none. Raises
    JobCommandError if the job asks for more time than the queue allows.
    """
    limit_s = spec.timing.limit_s
    if limit_s is None:
        timing = msgspec.structs.replace(spec.timing, limit_s=limits.default_s)
        return msgspec.structs.replace(spec, timing=timing)
    if limits.max_s is not None and limit_s > limits.max_s:
        raise JobCommandError(
            f"job {spec.uid}: time={length_text(limit_s)}: queue {spec.queue} allows at most "
            f"{length_text(limits.max_s)} (maxTime)"
        )
    return spec


def check_moments(spec: JobSpec, submitted: float, now: float) -> None:
    """Raise JobCommandError for times that cannot all be kept. `now`: the wall-clock time; the job
    was submitted at `submitted`.
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
