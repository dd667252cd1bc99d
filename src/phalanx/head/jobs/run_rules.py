"""Rules of runs: which arrays have them, and how many tasks a run has."""

from __future__ import annotations

from phalanx.model.accelerators import VISIBLE
from phalanx.model.jobs import states as st
from phalanx.model.jobs.spec import JobSpec
from phalanx.model.jobs.timing import NODE, PREEMPTED

WORK_S = 0.5
"""Seconds of work that a run has at most."""
MOST = 128
"""The most tasks of a run."""
_NEWEST = 0.1
"""The weight of the newest length in the mean."""
_WITH_FILES = frozenset({"svc", "mpi", "ray", "pytorch", "tensorflow", "ssh"})
"""Plugins that write files, or that name other members."""
_FAILURES = frozenset({st.POD_FAILED, st.POD_EVICTED, st.TASK_FAILED})
"""Events of tasks that have jobs of their own by then."""


def is_plain(spec: JobSpec) -> bool:
    """Whether the tasks of an array may be in runs: one command each, without anything that the
    head or the node must do for a task before it begins or after a good end.
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
    """How long the tasks of each array take, as a mean that forgets."""

    def __init__(self) -> None:
        self._mean_s: dict[str, float] = {}
        self._forbidden: set[str] = set()

    def ended(self, array: str, ran_s: float) -> None:
        """Learn from a task that has ended well."""
        before = self._mean_s.get(array)
        mean_s = ran_s if before is None else before + _NEWEST * (ran_s - before)
        self._mean_s[array] = max(mean_s, ran_s if ran_s > WORK_S else 0.0)

    def most(self, array: str, waiting: int, places: int) -> int:
        """Return how many tasks a run of the array has at most; 0 while its tasks are long, or of
        unknown length. `waiting`: how many tasks wait. `places`: how many places the array has.
        """
        mean_s = self._mean_s.get(array)
        if mean_s is None or mean_s > WORK_S or array in self._forbidden:
            return 0
        fair = max(waiting // (2 * max(places, 1)), 1)
        return min(MOST, fair, max(int(WORK_S / max(mean_s, 1e-4)), 1))

    def forbid(self, array: str) -> None:
        """Let an array have no runs any more."""
        self._forbidden.add(array)

    def forget(self, array: str) -> None:
        """Forget an array that is gone."""
        self._forbidden.discard(array)
        self._mean_s.pop(array, None)
