"""Policies that only the simulator has: small days with results computed by hand."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from tests.simulation.timed.days import day

from phalanx_research.timed import Job, Result, Training, WorkloadError, machine
from phalanx_research.timed.studied import STUDIED, simulate_studied
from phalanx_research.timed.studied.antman import GUEST_LOAD, HOST_LOAD
from phalanx_research.timed.studied.muri import SLOWER
from phalanx_research.timed.studied.rooms import Rooms
from phalanx_research.timed.studied.stages import guest_s, interleaved_s
from phalanx_research.timed.studied.themis import fair_parts

ONE = [machine("n0", cpu=8, gpus=1)]
TWO = [machine(f"n{i}", cpu=8, gpus=4) for i in range(2)]
ON_DATA, ON_GPU, ON_NETWORK = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)


def trained(text: str, **stages: tuple[float, float, float]) -> list[Job]:
    """Return the jobs of a day, with iterations of one second. `stages` gives the stages of a job
    by name; other jobs use GPUs only.
    """
    return [
        msgspec.structs.replace(
            job, training=Training(iteration_s=1.0, stages_s=stages.get(job.name, ON_GPU))
        )
        for job in day(text)
    ]


def finishes(result: Result) -> dict[str, float | None]:
    return {job.name: job.finish_s for job in result.jobs}


# -- Muri ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("jobs", "seconds"),
    [
        ([ON_DATA, ON_GPU], 1),  # one reads while the other computes
        ([ON_GPU, ON_GPU], 2),
        ([ON_DATA, ON_DATA], 1),  # one reads while the other prepares
        ([(2, 1, 0), (2, 1, 0)], 4),
        ([(2, 1, 1), (1, 2, 1)], 4),
        ([(2, 1, 1)] * 4, 4),  # each resource is in use all the time
        ([(1, 1, 1)] * 3, 4),  # of four slots one is idle
    ],
)
def test_iterations_of_jobs_that_take_turns(
    jobs: list[tuple[float, float, float]], seconds: float
) -> None:
    assert interleaved_s(jobs) == pytest.approx(seconds)


@pytest.mark.parametrize("policy", ["muri-s", "muri-l"])
def test_jobs_of_other_resources_share_a_gpu(policy: str) -> None:
    jobs = trained("a 0 10 1x1\nb 0 10 1x1", a=ON_DATA, b=ON_GPU)
    result = simulate_studied(policy, jobs, ONE)
    assert finishes(result) == pytest.approx({"a": 10 * SLOWER[2], "b": 10 * SLOWER[2]})
    assert result.measures.utilisation_pct == pytest.approx(100 * 20 / (10 * SLOWER[2]))
    assert result.measures.allocation_pct == pytest.approx(100)


def test_jobs_of_one_resource_share_a_gpu_all_the_same() -> None:
    """One iteration of a and one of b together take twice as long as one alone, plus a third. When
    a has ended, b runs alone.
    """
    jobs = trained("b 0 20 1x1\na 0 10 1x1")
    a = 10 * 2 * SLOWER[2]
    found = finishes(simulate_studied("muri-s", jobs, ONE))
    assert found == pytest.approx({"a": a, "b": a + 10})


def test_nobody_shares_where_there_is_room() -> None:
    jobs = trained("a 0 10 1x4\nb 0 10 1x4", a=ON_DATA)
    assert finishes(simulate_studied("muri-s", jobs, TWO)) == {"a": 10, "b": 10}


def test_every_event_costs_a_group_the_overheads_of_all() -> None:
    """c arrives at 5 and is too large for this machine. The event still costs a and b the sum of
    both overheads, 3 s.
    """
    text = "a 0 10 1x1 overhead_s=2\nb 0 10 1x1 overhead_s=1\nc 5 1 2x1"
    found = finishes(simulate_studied("muri-l", trained(text, a=ON_DATA), ONE))
    assert found == {
        "a": pytest.approx(10 * SLOWER[2] + 3), "b": pytest.approx(10 * SLOWER[2] + 3), "c": None,
    }  # fmt: skip


def test_muri_l_serves_who_ran_least() -> None:
    """The job that has run least comes first. At 4, four jobs that have not run share the GPU and
    put all four resources to use, and a waits. When they have ended, a runs alone.
    """
    lines = ["a 0 10 1x1", *(f"{name} 4 3 1x1" for name in "bcde")]
    even = dict.fromkeys("abcde", (2.0, 1.0, 1.0))
    result = simulate_studied("muri-l", trained("\n".join(lines), **even), ONE)
    end = 4 + 3 * 4 * SLOWER[4]
    assert finishes(result) == pytest.approx({"a": end + 6, **dict.fromkeys("bcde", end)})
    assert [job.preemptions for job in result.jobs] == [1, 0, 0, 0, 0]


def test_muri_s_serves_who_has_least_left() -> None:
    """Jobs are ordered by their GPUs times their remaining time. All jobs need all GPUs, so the
    four shorter ones share the GPUs, and the longest waits.
    """
    lines = ["a 0 50 1x4", *(f"{name} 0 3 1x4" for name in "bcde")]
    even = dict.fromkeys("abcde", (2.0, 1.0, 1.0))
    result = simulate_studied("muri-s", trained("\n".join(lines), **even), TWO[:1])
    end = 3 * 4 * SLOWER[4]
    assert finishes(result) == pytest.approx({"a": end + 50, **dict.fromkeys("bcde", end)})


# -- AntMan -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("guest", "host", "iterations"),
    [
        (ON_GPU, ON_DATA, 1),
        (ON_GPU, (0.25, 0.5, 0.25), 2),  # half a second of each of the host's iterations
        ((2.5, 1, 1), (2, 2, 1), 2),  # half a second of GPU is left in the first iteration
        (ON_GPU, (0.0, 1.0, 0.0), float("inf")),  # the host leaves it nothing
    ],
)
def test_iterations_of_a_guest(
    guest: tuple[float, float, float], host: tuple[float, float, float], iterations: float
) -> None:
    assert guest_s(guest, host, 1.0) == iterations


def test_a_guest_runs_beside_a_host_that_loses_nothing() -> None:
    """g is the guest. It does half of its work while h runs for 10 s, and the other half alone."""
    jobs = trained("h 0 10 1x1\ng 0 10 1x1 priority=-1", h=(0.25, 0.5, 0.25))
    result = simulate_studied("antman", jobs, ONE)
    assert finishes(result) == {"h": 10, "g": 15}
    assert result.measures.preemptions == 0


def test_a_host_waits_with_the_gpus_that_it_has() -> None:
    """c keeps three GPUs of n0 while it waits for the GPU of a. The guest g takes a GPU on which no
    job runs.
    """
    jobs = trained("a 0 10 1x1\nb 0 30 1x4\nc 1 5 1x4\nd 2 1 1x2\ng 3 7 1x1 priority=-1")
    result = simulate_studied("antman", jobs, TWO)
    assert finishes(result) == {"a": 10, "b": 30, "c": 15, "d": 16, "g": 10}


def test_a_gpu_has_one_guest() -> None:
    jobs = trained("g 0 10 1x1 priority=-1\nh 0 10 1x1 priority=-1")
    assert finishes(simulate_studied("antman", jobs, ONE)) == {"g": 10, "h": 20}
    assert GUEST_LOAD + HOST_LOAD == 1


def test_a_large_host_gathers_whole_machines() -> None:
    """b waits with all of n1 from 1 on, and c with three GPUs of n0 from 2 on. c gets all of n0
    first, and b gets it afterwards.
    """
    jobs = trained("a 0 10 1x1\nb 1 5 2x4\nc 2 1 1x4\nd 3 1 1x1")
    found = finishes(simulate_studied("antman", jobs, TWO))
    assert found == {"a": 10, "b": 16, "c": 11, "d": 17}


# -- Themis -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "b", "gpus", "room", "parts"),
    [
        ([0, 0], [10, 10], [1, 1], 1, [0.5, 0.5]),
        ([0, 0], [10, 10], [1, 1], 2, [1, 1]),
        ([0, 0], [30, 10], [1, 1], 1, [0.75, 0.25]),
        ([0, 0], [10, 10], [4, 1], 1, [0.2, 0.2]),
        # The first has rho 101 at best, so it has the whole time; the others share what is left.
        ([100, 0, 0], [1, 10, 10], [1, 1, 1], 1.5, [1, 0.25, 0.25]),
    ],
)
def test_fair_parts(
    a: list[float], b: list[float], gpus: list[float], room: float, parts: list[float]
) -> None:
    found = fair_parts(np.array(a, float), np.array(b, float), np.array(gpus, float), room)
    assert found.tolist() == pytest.approx(parts)


def test_leases_go_to_whom_sharing_hurts_most() -> None:
    """If x is a job's part of the time from 5 on, rho is 0.5 + 0.5 / x for a, 0.5 + 1 / x for b and
    1 / x for c. So b gets the largest part. From 15 on, c comes before a, which has already run.
    """
    result = simulate_studied("themis", day("a 0 10 1x1\nb 0 10 1x1\nc 5 10 1x1"), ONE)
    assert finishes(result) == {"a": 30, "b": 15, "c": 25}
    assert [job.preemptions for job in result.jobs] == [1, 0, 0]


# -- all of them --------------------------------------------------------------------------------


def test_rooms() -> None:
    rooms = Rooms([4, 4, 4])
    assert [gpus for gpus in (3, 2, 4, 2, 2, 1) if rooms.take(gpus)] == [3, 2, 4, 2, 1]
    assert rooms.held() == [4, 4, 4]
    rooms = Rooms([4, 4, 4])
    assert [gpus for gpus in (6, 8, 5) if rooms.take(gpus)] == [6, 5]
    assert rooms.held() == [4, 3, 4]


@pytest.mark.parametrize("policy", STUDIED)
def test_measures(policy: str) -> None:
    """There are only two jobs. They run one after the other, each on all GPUs of a machine."""
    result = simulate_studied(policy, trained("a 0 10 1x4\nb 10 30 1x4"), TWO[:1], name="hand")
    measures = result.measures
    assert finishes(result) == {"a": 10, "b": 40}
    assert (measures.allocation_pct, measures.utilisation_pct) == (100, 100)
    assert (measures.jct_mean_s, measures.makespan_s) == (20, 40)
    assert measures.cycles == 3
    assert list(result.series.allocated) == [4, 4, 0]
    assert [queue.share_pct for queue in result.queues] == [100]


@pytest.mark.parametrize("policy", STUDIED)
def test_what_is_too_large_is_left_over(policy: str) -> None:
    result = simulate_studied(policy, trained("a 0 10 1x5\nb 0 10 1x4"), TWO[:1])
    assert finishes(result)["b"] == 10
    assert result.measures.finished == 1


@pytest.mark.parametrize(
    ("policy", "text", "says"),
    [
        ("muri-s", "a 0 10 1x1", "policy muri-s needs the stage times of every job's iteration"),
        ("antman", "a 0 10 1x1", "job a has none: a trace has them in the columns resource_time_0"),
        ("themis", "a 0 10 1x0.5", "job a requests 0.5 GPUs"),
        ("themis", "a 0 10 2x1 min_tasks=1", "job a may start with 1 of its 2 tasks"),
    ],
)
def test_what_is_refused(policy: str, text: str, says: str) -> None:
    with pytest.raises(WorkloadError, match=says):
        simulate_studied(policy, day(text), ONE)
