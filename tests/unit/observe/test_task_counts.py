"""Attempts of tasks are counted exactly, however many end at the same time."""

from __future__ import annotations

import pytest

from phalanx.model.lifecycle import FAILED, FINISHED
from phalanx.observe.metrics.catalogue import FUNCTIONS, OF_NODES
from phalanx.observe.metrics.meter import Meter
from phalanx.observe.metrics.task_counts import count_runs
from phalanx.observe.task_journal import TASK_ALONE, About, RunFields, Runs, TaskJournal

ACTOR = About(actor=b"a")


def run(
    name: str = "f", state: str = FINISHED, worker: bytes = b"w", about: About = TASK_ALONE
) -> RunFields:
    return (1, name, state, 100.5, 102.5, worker, 0, about, 100.0, None, "", "")


def samples(meter: Meter, name: str) -> dict[tuple[str, ...], float]:
    return {one.labels: one.value for one in meter.families[name].samples.values()}


@pytest.fixture
def meter() -> Meter:
    return Meter(OF_NODES)


@pytest.mark.parametrize("count", [1, 99, 100, 101, 12_345])
def test_as_many_as_there_were(meter: Meter, count: int) -> None:
    count_runs(meter, [run()] * count)
    assert samples(meter, "phalanx_tasks_finished_total") == {("finished", "f"): count}
    [times] = meter.families["phalanx_task_run_seconds"].samples.values()
    assert sum(times.counts or ()) == count
    assert times.value == 2.0 * count
    [waits] = meter.families["phalanx_task_queue_seconds"].samples.values()
    assert (waits.value, waits.labels) == (0.5 * count, ("task",))


def test_runs_together_are_counted_as_one_by_one(meter: Meter) -> None:
    times: dict[str, list[float]] = {"started": [100.5] * 7, "ended": [102.5] * 7}
    together = Runs(1, "f", TASK_ALONE, b"w", created=[100.0] * 7, parent=None, **times)
    count_runs(meter, [together, run(), together])
    assert samples(meter, "phalanx_tasks_finished_total") == {("finished", "f"): 15}
    [seconds] = meter.families["phalanx_task_run_seconds"].samples.values()
    assert (sum(seconds.counts or ()), seconds.value) == (15, 30.0)
    [waits] = meter.families["phalanx_task_queue_seconds"].samples.values()
    assert (waits.value, waits.labels) == (7.5, ("task",))


def test_by_function_result_and_kind(meter: Meter) -> None:
    count_runs(
        meter, [run(), run("A.m", about=ACTOR), run(state=FAILED), run(state=FAILED, worker=b"")]
    )
    assert samples(meter, "phalanx_tasks_finished_total") == {
        ("finished", "f"): 1, ("finished", "A.m"): 1, ("failed", "f"): 2,
    }  # fmt: skip
    assert samples(meter, "phalanx_task_run_seconds") == {("task",): 4, ("actor",): 2}


def test_functions_have_an_end(meter: Meter) -> None:
    count_runs(meter, [run(f"f{number}") for number in range(FUNCTIONS + 5)])
    found = samples(meter, "phalanx_tasks_finished_total")
    assert found["finished", "_other"] == 5
    assert len(found) == FUNCTIONS + 1


def test_a_journal_gives_each_once() -> None:
    journal = TaskJournal()
    journal.add_run(run())
    assert len(journal.take_uncounted()) == 1
    assert not journal.take_uncounted()
    journal.add_run(run())
    assert len(journal.take_uncounted()) == 1
    assert len(journal.runs()) == 2
