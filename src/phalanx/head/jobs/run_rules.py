"""Rules for runs of array tasks: which arrays have runs, and how many tasks a run has."""

from __future__ import annotations

from phalanx.model.accelerators import VISIBLE
from phalanx.model.jobs import states as st
from phalanx.model.jobs.spec import JobSpec
from phalanx.model.jobs.timing import NODE, PREEMPTED

WORK_S = 0.5
"""The largest expected length of one run, in seconds."""
MOST = 128
"""The largest number of tasks in one run."""
_NEWEST = 0.1
"""The weight of the newest run time in the running mean of an array's run times."""
_WITH_FILES = frozenset({"svc", "mpi", "ray", "pytorch", "tensorflow", "ssh"})
"""Plugins that write files, or that refer to other members."""
_FAILURES = frozenset({st.POD_FAILED, st.POD_EVICTED, st.TASK_FAILED})
"""Events of a task after which the task gets a job of its own."""


def is_plain(spec: JobSpec) -> bool:
    """Whether tasks of an array may be in runs. Each task must be a single command, and neither the
    head nor the node may have anything to do before the task starts or after it succeeds.
    """
    if len(spec.groups) != 1 or spec.array is None:
        return False
    (group,) = spec.groups
    template, rule = group.template, spec.timing.requeue
    timing = spec.timing
    is_one_command = (
        group.replicas == 1
        and group.depends_on is None
        and group.partition is None
        and len(template.processes) == 1
        and not template.before
        and not template.processes[0].streams
    )
    policies = (*spec.policies, *group.policies)
    is_about_failures = all(set(policy.events) <= _FAILURES for policy in policies)
    is_bound_to_nothing = not (
        spec.licenses
        or spec.reservation
        or spec.is_followed
        or spec.topology
        or spec.is_prepared_first
        or template.placement
        or template.time_limit_s
        or timing.limit_s is not None
        or timing.deadline is not None
        or any(kind in template.needs for kind in VISIBLE)
        or any(name in _WITH_FILES for name, _ in spec.plugins)
    )
    runs_again = rule is None or {NODE, PREEMPTED} <= set(rule.reasons)
    is_plain_end = is_about_failures and spec.min_success is None
    return is_one_command and is_plain_end and is_bound_to_nothing and runs_again


class Lengths:
    """The mean run time of each array's tasks. Newer tasks have more weight."""

    def __init__(self) -> None:
        self._mean_s: dict[str, float] = {}
        self._forbidden: set[str] = set()

    def ended(self, array: str, ran_s: float) -> None:
        """Include the run time of a task that has succeeded in the array's mean."""
        before = self._mean_s.get(array)
        mean_s = ran_s if before is None else before + _NEWEST * (ran_s - before)
        self._mean_s[array] = max(mean_s, ran_s if ran_s > WORK_S else 0.0)

    def most(self, array: str, waiting: int, places: int) -> int:
        """Return how many tasks a run of the array may have; 0 while the run time of its tasks is
        long or unknown. `waiting`: how many tasks wait. `places`: how many places the array has.
        """
        mean_s = self._mean_s.get(array)
        if mean_s is None or mean_s > WORK_S or array in self._forbidden:
            return 0
        fair = max(waiting // (2 * max(places, 1)), 1)
        return min(MOST, fair, max(int(WORK_S / max(mean_s, 1e-4)), 1))

    def forbid(self, array: str) -> None:
        """Allow no more runs of an array."""
        self._forbidden.add(array)

    def forget(self, array: str) -> None:
        """Forget an array that is gone."""
        self._forbidden.discard(array)
        self._mean_s.pop(array, None)
