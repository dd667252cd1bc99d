"""Groups of collective operations: their members, and calls that are refused. Results of gloo are
tested in tools/integrations/suites/torch_collective.py, where torch is installed.
"""

from __future__ import annotations

import importlib.util
import time

import numpy
import pytest

import phalanx
from phalanx.util import collective
from phalanx.util.collective import rendezvous
from phalanx.util.collective.base_group import BaseGroup
from phalanx.util.collective.types import Backend

HAS_TORCH = importlib.util.find_spec("torch") is not None


@pytest.fixture(scope="module")
def member(ray):
    """Return a class of actors. Each has a backend whose operations record their calls."""

    @ray.remote(num_cpus=0)
    class Member:
        def __init__(self):
            class Noting(BaseGroup):
                asked: list[object] = []  # noqa: RUF012

                @classmethod
                def check_backend_availability(cls):
                    return True

                def destroy_group(self):
                    self.asked.append("left")

                def allreduce(self, tensor, options):
                    self.asked.append(("allreduce", options.reduceOp.name))
                    tensor[0][:] = 7

                def reduce(self, tensor, options):
                    self.asked.append(("reduce", options.root_rank, options.reduceOp.name))

            self.noted = Noting.asked
            collective.register_collective_backend("noting", Noting)

        def call(self, name, *args):
            return getattr(collective, name)(*args)

        def reduced(self, name):
            array = numpy.zeros(2)
            collective.allreduce(array, name)
            return array.tolist(), collective.get_rank(name)

        def asked(self):
            return self.noted

        def with_variables(self, variables):
            import os

            os.environ.update(variables)

    return Member


def test_a_process_is_in_a_group_until_it_leaves(member, ray):
    one = member.remote()

    def call(*args):
        return ray.get(one.call.remote(*args), timeout=60)

    assert call("get_rank", "g") == call("get_collective_group_size", "g") == -1
    call("init_collective_group", 3, 1, "noting", "g")
    assert (call("get_rank", "g"), call("get_collective_group_size", "g")) == (1, 3)
    with pytest.raises(RuntimeError, match="a second time"):
        call("init_collective_group", 3, 1, "noting", "g")
    assert ray.get(one.reduced.remote("g"), timeout=60) == ([7.0, 7.0], 1)
    call("reduce", numpy.zeros(2), 2, "g", collective.ReduceOp.MAX)
    call("destroy_collective_group", "g")
    call("destroy_collective_group", "g")
    assert not call("is_group_initialized", "g")
    asked = [("allreduce", "SUM"), ("reduce", 2, "MAX"), "left"]
    assert ray.get(one.asked.remote(), timeout=60) == asked
    with pytest.raises(NotImplementedError, match="Noting has no barrier"):
        call("init_collective_group", 3, 1, "noting", "g")
        call("barrier", "g")


@pytest.mark.parametrize(
    ("asked", "error", "words"),
    [
        (
            ("init_collective_group", 2, 2, "noting", "r"),
            ValueError,
            "rank must be from 0 to 1, got 2",
        ),
        (("init_collective_group", 2, 0, "noting", ""), ValueError, "needs to be a string"),
        (("init_collective_group", 2, 0, "nccl", "s"), RuntimeError, "has no NCCL groups"),
        (("init_collective_group", 2, 0, "none", "s"), RuntimeError, "register_collective_backe"),
        (("allreduce", numpy.zeros(1), "nowhere"), RuntimeError, "is not initialized"),
        (("allreduce", [1], "r"), RuntimeError, "Unrecognized tensor type"),
        (("broadcast", numpy.zeros(1), -1, "r"), ValueError, "is negative"),
        (("broadcast", numpy.zeros(1), 2, "r"), ValueError, "less than world size '2'"),
        (("send", numpy.zeros(1), 0, "r"), RuntimeError, "is self"),
        (("recv", numpy.zeros(1), 0, "r"), RuntimeError, "is self"),
        (("allgather", [], numpy.zeros(1), "r"), RuntimeError, "empty list"),
        (("allgather", [numpy.zeros(1)], numpy.zeros(1), "r"), RuntimeError, "equal to world_size"),
        (("reducescatter", numpy.zeros(1), 3, "r"), RuntimeError, "must be a list of tensors"),
    ],
)
def test_what_is_refused(member, ray, asked, error, words):
    one = member.remote()
    ray.get(one.call.remote("init_collective_group", 2, 0, "noting", "r"), timeout=60)
    with pytest.raises(error, match=words):
        ray.get(one.call.remote(*asked), timeout=60)


def test_actors_join_a_declared_group_when_they_use_it(member, ray):
    actors = [member.remote() for _ in range(2)]
    with pytest.raises(RuntimeError, match="NOTING is not available"):
        collective.create_collective_group(actors, 2, [1, 0], "noting", "declared")
    collective.register_collective_backend("noting", type("Noting", (BaseGroup,), {
        "check_backend_availability": classmethod(lambda cls: True)
    }))  # fmt: skip
    for _ in range(2):
        collective.create_collective_group(actors, 2, [1, 0], Backend("noting"), "declared")
        with pytest.raises(RuntimeError, match="twice"):
            collective.create_collective_group(actors, 2, [1, 0], "noting", "declared")
        found = ray.get([one.reduced.remote("declared") for one in actors], timeout=60)
        assert [rank for _, rank in found] == [1, 0]
        for one in actors:
            ray.get(one.call.remote("destroy_collective_group", "declared"), timeout=60)
    with pytest.raises(RuntimeError, match="is not initialized"):
        ray.get(actors[0].reduced.remote("declared"), timeout=60)


def test_actors_join_the_group_that_their_variables_name(member, ray):
    one = member.remote()
    names = ("name", "backend", "world_size", "rank")
    given = dict(zip((f"collective_{name}" for name in names), ("", "noting", "2", "1")))  # noqa: B905
    given["collective_group_name"] = "by variables"
    ray.get(one.with_variables.remote(given), timeout=60)
    assert ray.get(one.reduced.remote("by variables"), timeout=60) == ([7.0, 7.0], 1)


@pytest.mark.parametrize(
    ("ranks", "size", "words"),
    [([0], 2, "one rank"), ([0, 2], 2, "permutation"), ([0, 1], 0, "greater"), ([1, 0], 3, "3")],
)
def test_a_declaration_that_does_not_fit_is_refused(member, ranks, size, words):
    actors = [member.remote() for _ in range(2)]
    with pytest.raises(RuntimeError, match=words):
        collective.create_collective_group(actors, size, ranks, "gloo", "misfit")


def test_outside_of_actors_and_tasks_there_is_no_group(ray):
    with pytest.raises(RuntimeError, match="only used inside"):
        collective.init_collective_group(1, 0, "gloo")
    with pytest.raises(RuntimeError, match="only used inside"):
        collective.barrier()
    assert not collective.nccl_available()
    assert collective.gloo_available() is HAS_TORCH


def test_backends_are_classes_of_ours_with_names_of_their_own():
    with pytest.raises(TypeError, match="is not a subclass"):
        collective.register_collective_backend("other", dict)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="already registered"):
        collective.register_collective_backend("gloo", BaseGroup)
    assert Backend("torch_gloo") == "GLOO"
    with pytest.raises(ValueError, match="Unrecognized backend: 'other'"):
        Backend("other")


def test_who_waits_for_a_first_member_that_does_not_come_gives_up(ray):
    with pytest.raises(TimeoutError, match="member 0 has not joined the collective group 'alone'"):
        rendezvous.wait_for("address", "alone", time.monotonic())


@pytest.mark.skipif(HAS_TORCH, reason="torch is installed here")
def test_without_torch_gloo_says_what_it_needs(member, ray):
    with pytest.raises(RuntimeError, match="pip install torch"):
        ray.get(member.remote().call.remote("init_collective_group", 1, 0, "gloo"), timeout=60)


def test_who_waits_for_one_group_joins_another_meanwhile(ray):
    @phalanx.remote(num_cpus=0, max_concurrency=2)
    class Joins:
        def __init__(self):
            import threading

            both = threading.Barrier(2)

            class Waits(BaseGroup):
                def __init__(self, *about):
                    super().__init__(*about)
                    both.wait(timeout=60)

                @classmethod
                def check_backend_availability(cls):
                    return True

            collective.register_collective_backend("waits", Waits)

        def join(self, name):
            collective.init_collective_group(1, 0, "waits", name)
            return collective.get_rank(name)

    one = Joins.remote()
    assert ray.get([one.join.remote(name) for name in ("first", "second")], timeout=90) == [0, 0]
