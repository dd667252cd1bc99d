"""Which worker ends when memory is short, waiting times, averages and seeded numbers."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phalanx.scheduler.placement.averages import Average
from phalanx.scheduler.placement.memory_pressure import WorkerMemory, kills_by_time
from phalanx.scheduler.placement.seeded import Seeded
from phalanx.scheduler.placement.strategy import Asking
from phalanx.scheduler.placement.waiting_time import Backlog, LeastWaiting

from .language import cluster, node, request, said


def workers(text: str) -> list[WorkerMemory]:
    """Return the workers of a text such as `"a 100 t1 r"`: 100 bytes, began at 1, retriable; `i` is
    idle.
    """
    listed = []
    for part in text.split(","):
        if not part.strip():
            continue
        name, size, *words = part.split()
        began = next((float(word[1:]) for word in words if word.startswith("t")), 0.0)
        listed.append(
            WorkerMemory(
                name=name,
                memory_bytes=int(size),
                started_s=began,
                is_retriable="r" in words,
                is_idle="i" in words,
            )
        )
    return listed


# workers | used | who is ended, with ! where the task does not run again
BY_TIME = [
    ("", 1200, ""),
    ("a 100 t1 r", 1000, ""),  # at the threshold is not over it
    ("a 100 t1 r", 1001, "a"),
    ("a 100 t1 r, b 100 t2 r", 1050, "b a"),  # down to the threshold less the buffer
    ("a 200 t1 r, b 200 t2 r", 1100, "b"),
    ("a 100 t1 r, b 100 t2 r, c 100 t3 r", 1200, "c b a"),
    ("a 500 t9, b 200 t1 r", 1050, "b"),  # retriable before newer
    ("a 500 t9, b 100 t1 r", 1250, "b a!"),
    ("a 500 t1, b 500 t2", 1100, "b!"),
    ("b 500 t1 r, a 500 t1 r", 1100, "a"),  # as new: by name
    ("a 500 t9 r, b 300 i", 1100, "b!"),  # idle workers before all
    ("a 500 t9 r, b 20 i", 1100, "a"),  # small idle ones are not worth it
    ("b 300 i, c 400 i, a 500 t9 r", 1150, "c!"),
]


@pytest.mark.parametrize(("listed", "used", "killed"), BY_TIME)
def test_memory_by_time(listed: str, used: int, killed: str) -> None:
    kills = kills_by_time(
        workers(listed), used_bytes=used, threshold_bytes=1000, buffer_bytes=100, idle_bytes=100
    )
    assert " ".join(kill.worker + ("" if kill.retry else "!") for kill in kills) == killed


class TestLeastWaiting:
    VIEW = "a 4CPU\nb 4CPU\nc 0/4CPU\nd 1CPU"

    def pick(self, terms: Asking, **backlogs: Backlog) -> str:
        view, least = cluster(self.VIEW), LeastWaiting(default_bandwidth=100)
        for name, backlog in backlogs.items():
            least.report(view, name, backlog)
        return said(least.pick(view, request("2CPU"), terms, random.Random(0)))

    def test_the_shortest_queue_in_seconds(self) -> None:
        busy = Backlog(queue_length=2, run_s=5)
        long_tasks = Backlog(queue_length=1, run_s=11)
        assert self.pick(Asking(), a=busy, c=busy, b=long_tasks) == "a"
        assert self.pick(Asking(), a=long_tasks, b=busy, c=long_tasks) == "b"

    def test_a_node_that_is_full_now_may_still_wait_least(self) -> None:
        busy = Backlog(queue_length=9, run_s=9)
        assert self.pick(Asking(), a=busy, b=busy) == "c busy"
        assert self.pick(Asking(require_available=True), a=busy, b=busy) == "a"

    def test_missing_bytes_count_by_bandwidth(self) -> None:
        held = Asking(argument_bytes=1000, held_bytes={"b": 1000, "a": 500, "gone": 1000})
        assert self.pick(held) == "b"
        assert self.pick(held, b=Backlog(queue_length=1, run_s=6)) == "a"
        fast = Backlog(bandwidth=1e9)
        assert self.pick(Asking(argument_bytes=1000), b=fast) == "b"

    def test_ties_go_to_the_preferred_node_then_by_id(self) -> None:
        assert self.pick(Asking()) == "a"
        assert self.pick(Asking(preferred="b")) == "b"
        assert self.pick(Asking(preferred="d")) == "a"  # it cannot hold it
        assert self.pick(Asking(local="a", avoid_local=True)) == "b"

    def test_reports_survive_nodes_that_join(self) -> None:
        view, least = cluster("b 4CPU\nc 4CPU"), LeastWaiting()
        least.report(view, "b", Backlog(queue_length=5, run_s=1))
        view.nodes.put(node("a 4CPU"))
        least.report(view, "a", Backlog(queue_length=9, run_s=1))
        assert said(least.pick(view, request("1CPU"), Asking(), random.Random(0))) == "c"
        view.nodes.remove("c")
        assert said(least.pick(view, request("1CPU"), Asking(), random.Random(0))) == "b"

    def test_one_strategy_may_serve_several_clusters(self) -> None:
        least = LeastWaiting()
        answers = []
        for nodes in ("a 4CPU", "b 4CPU\nc 4CPU", "a 4CPU\nc 4CPU"):
            view = cluster(nodes)
            least.report(view, "a", Backlog(queue_length=5, run_s=1))
            answers.append(said(least.pick(view, request("1CPU"), Asking(), random.Random(0))))
        assert answers == ["a", "b", "c"]

    def test_no_node_at_all(self) -> None:
        least = LeastWaiting()
        assert said(least.pick(cluster(""), request("1CPU"), Asking(), Seeded(0))) == "infeasible"


def test_averages_move_towards_their_samples() -> None:
    average = Average(weight=0.5).with_sample(8)
    assert average.value == 8
    assert average.with_sample(4).value == 6
    for sample in (-1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="a finite number of 0 or more"):
            average.with_sample(sample)


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0.01, 1))
def test_an_average_lies_among_its_samples(samples: list[float], weight: float) -> None:
    average = Average(weight=weight)
    for sample in samples:
        average = average.with_sample(sample)
    assert min(samples) - 1e-6 <= average.value <= max(samples) + 1e-6


def test_seeded_numbers() -> None:
    again = [Seeded(3).randrange(1000) for _ in range(2)]
    assert again[0] == again[1]
    rng = Seeded(1)
    drawn = [rng.randrange(4) for _ in range(4000)]
    assert all(800 < drawn.count(number) < 1200 for number in range(4))
    with pytest.raises(ValueError, match="at least one"):
        rng.randrange(0)
