"""Metrics of ended attempts of tasks. Many attempts are counted in one call, so that counting costs
the program almost nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import islice
from operator import itemgetter

from phalanx.model.lifecycle import FINISHED
from phalanx.observe.metrics.meter import Meter
from phalanx.observe.task_journal import RunFields, Runs

MOST_TIMED = 10
"""The largest number of attempts that one call times.

If there are more, only every second, third or later attempt is timed, and its time also counts for
the attempts between. So a histogram's count is exact, and its times are a sample.
"""
TASK, ACTOR = "task", "actor"
_name, _state = itemgetter(1), itemgetter(2)


def count_runs(meter: Meter, ended: Sequence[RunFields | Runs]) -> None:
    """Count attempts that have ended."""
    runs = [one for one in ended if isinstance(one, tuple)]
    for one in ended:
        if not isinstance(one, tuple):
            meter.add("phalanx_tasks_finished_total", "finished", one.name, by=len(one))
            _time(meter, one.run(len(one) // 2), len(one))
    states = set(map(_state, runs))  # nearly always one
    for state in states:
        of_it = runs if len(states) == 1 else [run for run in runs if run[2] == state]
        result = "finished" if state == FINISHED else "failed"
        for name, count in Counter(map(_name, of_it)).items():
            meter.add("phalanx_tasks_finished_total", result, name, by=count)
    step = -(-len(runs) // MOST_TIMED) or 1
    left = len(runs)
    for run in islice(runs, 0, None, step):
        times = min(step, left)
        left -= times
        _time(meter, run, times)


def _time(meter: Meter, run: RunFields, times: int) -> None:
    """Observe the run time and the waiting time of an attempt, `times` times each."""
    _, _, _, started, ended, worker, _, about, created, *_ = run
    if not worker:
        return  # the attempt failed without having run
    kind = ACTOR if about.actor else TASK
    meter.observe("phalanx_task_run_seconds", max(ended - started, 0.0), kind, times=times)
    if created:
        waited_s = max(started - created, 0.0)
        meter.observe("phalanx_task_queue_seconds", waited_s, kind, times=times)
