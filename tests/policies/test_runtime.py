"""Fair dispatch, memory that runs short, soft demands, waiting times and spill-over."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phalanx.policies.averages import Average
from phalanx.policies.fair_dispatch import QueuedClass, class_cap, dispatch, hold_s
from phalanx.policies.memory_pressure import (
    WorkerMemory,
    kill_by_owner,
    kills_by_owner,
    kills_by_time,
)
from phalanx.policies.seeded import Seeded
from phalanx.policies.soft_demand import SoftDemand, least_broken
from phalanx.policies.strategy import Asking
from phalanx.policies.waiting_time import Backlog, LeastWaiting
from phalanx.resources.sets import EMPTY
from phalanx.scheduling.spill_over import spill_over

from .language import cluster, node, request, resources, said


def classes(text: str) -> list[QueuedClass]:
    """`"f 3+2*1CPU"`: three queued, two running, one CPU each."""
    listed = []
    for part in text.split(","):
        name, amounts = part.split()
        counts, _, each = amounts.partition("*")
        queued, _, running = counts.partition("+")
        listed.append(
            QueuedClass(
                name=name, request=resources(each), queued=int(queued), running=int(running or 0)
            )
        )
    return listed


# classes | free | CPUs of the node | what starts
DISPATCH = [
    ("f 3+2*1CPU, g 1*1CPU", "1CPU", 3, "g"),
    ("f 3+2*1CPU, g 1*1CPU", "1CPU", 4, "f"),  # not crowded: in order
    ("f 4*1CPU, g 4*1CPU", "3CPU", 3, "f f f"),
    ("f 1+2*1CPU, g 4*1CPU", "1CPU", 3, "g"),
    ("f 1+1*1CPU, g 4+1*1CPU", "1CPU", 3, "f"),
    ("f 9*1CPU", "3CPU", 3, "f f f"),
    ("f 3*2CPU, g 2*1CPU", "3CPU", 3, "f g"),
    ("f 3*4CPU, g 1*1CPU", "3CPU", 3, "g"),  # what does not fit blocks nobody
    ("f 2+9*0CPU, g 5*1CPU", "1CPU", 1, "f f g"),  # no CPU, no turns
    ("f 2*1CPU, g 2+9*1CPU, h 1*1CPU", "2CPU", 2, "f f"),
    ("f 0+1*1CPU, g 0*1CPU", "9CPU", 9, ""),
    ("f 9+3*1CPU", "9CPU", 3, ""),  # at its cap: held back for a while
]


@pytest.mark.parametrize(("queue", "free", "cpus", "started"), DISPATCH)
def test_dispatch(queue: str, free: str, cpus: int, started: str) -> None:
    found = dispatch(classes(queue), resources(free), resources(f"{cpus}CPU").get("CPU", 0))
    assert " ".join(found) == started


def test_a_class_is_held_back_longer_the_further_it_is_beyond_its_cap() -> None:
    cap = class_cap(8 * 10_000, resources("2CPU"))
    assert cap == 4
    assert [hold_s(running, cap) for running in (3, 4, 5, 6, 7, 8, 99)] == [0, 1, 2, 4, 8, 10, 10]
    assert class_cap(8 * 10_000, resources("1GPU")) is None
    assert hold_s(1000, None) == 0
    assert class_cap(5 * 10_000, resources("2CPU")) == 3  # halves round up


def workers(text: str) -> list[WorkerMemory]:
    """`"a 100 t1 r"`: 100 bytes, began at 1, retriable; `i` idle, `o=x` the owner."""
    listed = []
    for part in text.split(","):
        if not part.strip():
            continue
        name, size, *words = part.split()
        began = next((float(word[1:]) for word in words if word.startswith("t")), 0.0)
        owner = next((word[2:] for word in words if word.startswith("o=")), "")
        listed.append(
            WorkerMemory(
                name=name,
                memory_bytes=int(size),
                started_s=began,
                is_retriable="r" in words,
                is_idle="i" in words,
                owner=owner,
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


BY_OWNER = [
    ("", ""),
    ("a 1 t1 r o=x, b 1 t2 r o=x", "b a!"),  # the last of a group does not run again
    ("a 1 t1, b 1 t2", "b! a!"),
    ("a 1 t1 r o=x, b 1 t2 r o=x, c 1 t9 r o=y", "b c! a!"),  # the largest group first
    ("a 1 t1 r o=x, b 1 t9 o=y", "a! b!"),
    ("a 1 t1 r o=x, b 1 t2 r o=y", "b! a!"),
    ("a 1 t1 i o=x", ""),
]


@pytest.mark.parametrize(("listed", "killed"), BY_OWNER)
def test_memory_by_owner(listed: str, killed: str) -> None:
    kills = kills_by_owner(workers(listed))
    assert " ".join(kill.worker + ("" if kill.retry else "!") for kill in kills) == killed
    first = kill_by_owner(workers(listed))
    assert (first is None) is (not kills) and (first is None or first == kills[0])


# request | soft | hints | node and broken demands
SOFT = [
    ("1p", "", "", "local 0"),
    ("6p", "", "", "n1 0"),
    ("11p", "", "", None),
    ("11p", "p", "", "local 1"),
    ("1p 1z", "z", "", "local 1"),
    ("6p 3c", "c", "", "n1 0"),
    ("6p 9c", "c", "", "n1 1"),
    ("6p 9c", "p", "", "local 1"),
    ("1p", "", "n1", "n1 0"),
    ("6p 9c", "c p", "local", "local 1"),
    ("1p", "", "gone", "local 1"),
]


@pytest.mark.parametrize(("asked", "soft", "hints", "expected"), SOFT)
def test_soft_demands(asked: str, soft: str, hints: str, expected: str | None) -> None:
    nodes = [node("local 5p 10c"), node("n1 10p 5c")]
    demand = SoftDemand(
        request=resources(asked), soft=frozenset(soft.split()), hints=tuple(hints.split())
    )
    found = least_broken(nodes, demand, "local")
    assert (f"{found.node} {found.violations}" if found else None) == expected


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


def test_spill_over_moves_all_that_was_stuck_and_one_that_waits() -> None:
    stuck = [("t1", resources("9CPU")), ("t2", resources("2GPU")), ("t3", resources("1GPU"))]
    ready = [("r1", resources("9CPU")), ("r2", resources("1CPU")), ("r3", resources("1CPU"))]
    total = resources("4CPU 2GPU")
    found = spill_over(stuck, ready, total)
    assert found.moved == ("t2", "t3", "r2")
    assert found.load == resources("1CPU 3GPU")
    assert spill_over(stuck, ready, total, joined=False).moved == ("t2", "t3")
    assert spill_over([], [("r1", resources("9CPU"))], total).load == EMPTY


def test_seeded_numbers() -> None:
    again = [Seeded(3).randrange(1000) for _ in range(2)]
    assert again[0] == again[1]
    rng = Seeded(1)
    drawn = [rng.randrange(4) for _ in range(4000)]
    assert all(800 < drawn.count(number) < 1200 for number in range(4))
    with pytest.raises(ValueError, match="at least one"):
        rng.randrange(0)
