"""Statistics, sums and efficiency, compared with tables that were computed by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from phalanx.cli.accounting_view import efficiency_text
from phalanx.observe.accounting.efficiency import efficiency
from phalanx.observe.accounting.questions import (
    MAX_ATTEMPTS,
    MAX_NAMES,
    AttemptQuery,
    check_attempts,
)
from phalanx.observe.accounting.series import KEPT, Series, p95
from phalanx.observe.accounting.sums import (
    HourSum,
    attempt_sums,
    bucket_of,
    longest_of,
    total_of,
    usage_sums,
)

from .attempts import attempt, used

# ---- series ----------------------------------------------------------------------------------


def test_mean_maximum_and_p95_are_by_time():
    series = Series()
    for length_s, value in ((90.0, 1.0), (8.0, 2.0), (2.0, 10.0)):
        series.add(length_s, value)
    assert series.mean == pytest.approx((90 + 16 + 20) / 100)
    assert series.maximum == 10.0
    assert series.p95() == 2.0, "it was above for 2 % of the time"


@pytest.mark.parametrize(
    ("pieces", "wanted"),
    [
        ([], 0.0),
        ([(5.0, 3.0)], 3.0),
        ([(95.0, 1.0), (5.0, 9.0)], 1.0),
        ([(94.0, 1.0), (6.0, 9.0)], 9.0),
    ],
)
def test_p95_of_a_few_pieces(pieces, wanted):
    assert p95(pieces) == wanted


def test_a_piece_without_a_length_counts_for_the_maximum_alone():
    series = Series()
    series.add(0.0, 7.0)
    assert (series.mean, series.maximum, series.p95()) == (0.0, 7.0, 0.0)


@given(some.lists(some.floats(0, 100), min_size=1, max_size=2000))
def test_memory_is_bounded_and_the_mean_is_exact(values):
    series = Series()
    for value in values:
        series.add(5.0, value)
    assert len(series._pieces) <= KEPT
    assert series.mean == pytest.approx(sum(values) / len(values))
    assert series.maximum == max(values)
    assert min(values) - 1e-6 <= series.p95() <= max(values) + 1e-6


def test_p95_of_a_long_run_is_near_that_of_all_samples():
    series = Series()
    for number in range(10_000):
        series.add(5.0, 1.0 if number < 9_000 else 4.0)
    assert series.p95() == pytest.approx(4.0)


# ---- sums ------------------------------------------------------------------------------------


def test_an_attempt_is_spread_over_its_hours():
    """The attempt ran from 10:30 to 12:15 on 2 CPUs and a GPU: 30, 60 and 15 minutes in three
    hours.
    """
    one = attempt(
        started=37_800.0, ended=44_100.0, gpus=1.0, waited_s=100.0,
        used=used(ran_s=6300.0, cpu_s=2100.0, gpus=1, gpu_mean=0.5, gpu_idle_s=3150.0),
    )  # fmt: skip
    parts = attempt_sums(one)
    assert sorted(parts) == [10, 11, 12]
    assert [parts[hour].gpu_s for hour in (10, 11, 12)] == [1800.0, 3600.0, 900.0]
    assert [parts[hour].cpu_s for hour in (10, 11, 12)] == [3600.0, 7200.0, 1800.0]
    assert [parts[hour].cpu_used_s for hour in (10, 11, 12)] == pytest.approx([600, 1200, 300])
    assert [parts[hour].gpu_idle_s for hour in (10, 11, 12)] == pytest.approx([900, 1800, 450])
    assert [parts[hour].gpu_used_s for hour in (10, 11, 12)] == pytest.approx([900, 1800, 450])
    assert [parts[hour].attempts for hour in (10, 11, 12)] == [0, 0, 1]
    assert [sum(parts[hour].waits.values()) for hour in (10, 11, 12)] == [1, 0, 0]


def test_half_of_a_device_counts_half():
    one = attempt(gpus=0.5, used=used(gpus=1, gpu_mean=1.0, gpu_idle_s=1800.0))
    [whole] = [part for part in attempt_sums(one).values() if part.gpu_s]
    assert (whole.gpu_s, whole.gpu_used_s, whole.gpu_idle_s) == (1800.0, 1800.0, 900.0)


def test_what_is_not_known_is_held_and_not_used():
    whole = total_of(attempt_sums(attempt(used=None, state="NodeLost")).values())
    assert (whole.cpu_s, whole.cpu_known_s, whole.cpu_used_s) == (7200.0, 0.0, 0.0)
    assert (whole.attempts, whole.completed) == (1, 0)


def test_use_that_comes_later_adds_up_to_the_same():
    one, use = attempt(gpus=2.0), used(gpus=2, gpu_mean=0.25, gpu_idle_s=900.0, cpu_idle_s=60.0)
    late = total_of([*attempt_sums(one).values(), *usage_sums(one, use).values()])
    at_once = total_of(attempt_sums(attempt(gpus=2.0, used=use)).values())
    assert late == at_once


@given(some.floats(0, 1e9), some.floats(0, 1e6))
def test_no_second_is_lost_or_doubled(started, length_s):
    one = attempt(started=started, ended=started + length_s)
    whole = total_of(attempt_sums(one).values())
    assert whole.cpu_s == pytest.approx(2 * one.elapsed_s, abs=1e-3)
    assert whole.attempts == 1


def test_an_attempt_of_centuries_is_bounded():
    one = attempt(started=0.0, ended=1e11)
    parts = attempt_sums(one)
    assert len(parts) < 10_000
    assert total_of(parts.values()).cpu_s == pytest.approx(2e11)


def test_waits_of_a_hundred_jobs():
    """The jobs waited 1 s, 2 s, ... 100 s. Half of them waited at most 50 s, nine in ten at most 90
    s.
    """
    whole = total_of(HourSum(waits={bucket_of(float(s)): 1}) for s in range(1, 101))
    for wanted, part in ((50, 0.5), (90, 0.9), (99, 0.99)):
        found = whole.wait(part)
        assert found is not None and wanted <= found <= wanted * 1.05
    assert HourSum().wait(0.5) is None


@given(some.floats(1, 1e8))
def test_a_wait_is_at_most_a_twentieth_below_the_end_of_its_bucket(wait_s):
    found = longest_of(bucket_of(wait_s))
    assert wait_s * (1 - 1e-6) <= found <= wait_s * 1.0501


# ---- questions -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (AttemptQuery(limit=MAX_ATTEMPTS + 1), "limit must be 1 to 10,000, not 10001"),
        (AttemptQuery(limit=0), "not 0"),
        (
            AttemptQuery(users=["u"] * (MAX_NAMES + 1)),
            "users has 101 values; at most 100 are allowed",
        ),
        (AttemptQuery(since=-1.0), "since must be 0 or more"),
        (AttemptQuery(since=float("nan")), "since must be 0 or more"),
        (AttemptQuery(since=5.0, until=5.0), "must be after since"),
    ],
)
def test_questions_that_are_none_are_refused(query, said):
    check_attempts(AttemptQuery(limit=MAX_ATTEMPTS, users=["u"] * MAX_NAMES))
    with pytest.raises(ValueError, match=said):
        check_attempts(query)


def helper(**fields):
    """A member that the job ended after its first member."""
    return attempt(**{"member": "task-0", "ended": 39_601.0, **fields})


# ---- efficiency ------------------------------------------------------------------------------


def test_a_job_of_two_members():
    """Each member had 2 CPUs for an hour, which is 14,400 CPU seconds in all. They used 1,800 and
    5,400, which is half. The second member used 900 of its 1,000 bytes.
    """
    found = efficiency(
        [
            attempt(used=used()),
            attempt(member="worker-1", node="n2", used=used(cpu_s=5400.0, memory_max=900.0)),
        ]
    )
    assert (found.cpu_s, found.held_cpu_s, found.cpu) == (7200.0, 14_400.0, 0.5)
    assert (found.memory_max, found.memory_part) == (900.0, 0.9)
    assert (found.cpus, found.memory, found.nodes) == (4.0, 2000.0, 2)
    assert (found.gpu, found.gpu_idle_s) == (None, None)
    assert found.elapsed_s == 3600.0
    assert found.advice.startswith("It used 50% of its CPUs")


def test_gpus_are_weighed_by_device_and_time():
    """Two devices were busy for 10 % of an hour, and a third one for 70 %: 30 % of three
    device-hours.
    """
    found = efficiency(
        [
            attempt(gpus=2.0, used=used(gpus=2, gpu_mean=0.1, gpu_idle_s=5000.0,
                    gpu_memory_max=30.0, gpu_memory_total=160.0)),
            attempt(member="worker-1", gpus=1.0, used=used(gpus=1, gpu_mean=0.7, gpu_idle_s=100.0,
                    gpu_memory_max=40.0, gpu_memory_total=80.0)),
        ]
    )  # fmt: skip
    assert found.gpu == pytest.approx((0.1 * 2 + 0.7) / 3)
    assert found.gpu_idle_s == 5100.0
    assert (found.gpu_memory_max, found.gpu_memory_part) == (40.0, 0.5)


GIB = 2.0**30


@pytest.mark.parametrize(
    ("one", "begins"),
    [
        (attempt(used=None), "Its use is not known"),
        (attempt(ended=36_299.0, used=used(ran_s=299.0)), "It ran less than 5 minutes"),
        (attempt(gpus=1.0, used=used(gpus=1, gpu_mean=0.14)), "Its GPUs computed 14% of the time"),
        (attempt(gpus=1.0, used=used(gpus=1, gpu_mean=0.15)), "It used its request well"),
        (attempt(used=used(memory_max=960.0, cpu_s=7000.0)), "It reached 96% of its memory"),
        (attempt(used=used(cpu_s=4600.0)), "It used 64% of its CPUs"),
        (attempt(used=used(cpu_s=4700.0)), "It used its request well"),
        (attempt(memory=8 * GIB, used=used(cpu_s=7000.0, memory_max=GIB)), "It used 12% of its m"),
        (attempt(cpus=0.0, used=used()), "It used its request well"),
    ],
)
def test_advice(one, begins):
    assert efficiency([one]).advice.startswith(begins)


def test_attempts_whose_use_is_unknown_are_left_out_and_counted():
    lost = attempt(attempt=1, state="NodeLost", exit_code=None, ended=36_100.0)
    found = efficiency([lost, attempt(attempt=2, started=36_200.0, used=used(cpu_s=6800.0))])
    assert (found.attempts, found.unknown, found.state) == (2, 1, "Completed")
    assert found.cpus == 2.0, "one member, started twice"
    assert found.cpu == 1.0
    assert found.elapsed_s == 3600.0


def test_the_state_is_that_of_a_member_that_failed_last():
    found = efficiency(
        [attempt(), attempt(member="worker-1", state="Failed", exit_code=3, used=used())]
    )
    assert (found.state, found.exit_code) == ("Failed", 3)


OUTCOMES = [
    ([attempt(), helper(exit_code=143, signal=15)], ("Completed", 0, 0)),
    ([attempt(), helper(state="Terminated", exit_code=143)], ("Completed", 0, 0)),
    ([attempt(state="Failed", exit_code=3), helper(state="Failed", exit_code=143)],
     ("Failed", 3, 0)),
    ([attempt(state="Failed", exit_code=9, attempt=1), attempt(attempt=2)], ("Completed", 0, 0)),
    ([attempt(state="Failed", exit_code=137, signal=9)], ("Failed", 137, 9)),
    ([attempt(state="NodeLost", exit_code=None)], ("NodeLost", None, 0)),
]  # fmt: skip


@pytest.mark.parametrize(("attempts", "outcome"), OUTCOMES)
def test_the_outcome_is_not_that_of_members_that_the_job_ended(attempts, outcome):
    found = efficiency(attempts)
    assert (found.state, found.exit_code, found.signal) == outcome


def test_an_array_has_its_own_name_and_the_outcome_of_all_its_tasks():
    tasks = [attempt(job=f"31[{index}]", cpus=1.0) for index in range(4)]
    tasks[1] = attempt(job="31[1]", cpus=1.0, state="Failed", exit_code=2, ended=39_000.0)
    found = efficiency(tasks)
    assert (found.job, found.state, found.exit_code, found.cpus) == ("31", "Failed", 2, 4.0)
    assert found.tasks == {"Completed": 3, "Failed": 1}
    text = efficiency_text(found, is_cut=False)
    assert "Job: 31\n" in text
    assert "Array tasks: 4 (3 Completed, 1 Failed)" in text
    assert "Attempts of members" not in text
    one = efficiency(tasks[:1])
    assert (one.job, one.state) == ("31[0]", "Completed")
