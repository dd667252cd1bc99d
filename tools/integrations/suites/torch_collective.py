"""`phalanx.util.collective` by torch's gloo, among actors."""

import numpy
import pytest
import torch

import phalanx
from phalanx.util import collective
from phalanx.util.collective import ReduceOp

SIZE = 3


@pytest.fixture(scope="module")
def members():
    phalanx.init("local", num_cpus=4, log_to_driver=False)
    made = [Member.remote(rank) for rank in range(SIZE)]
    phalanx.get([one.join.remote(SIZE, "group") for one in made], timeout=300)
    yield made
    phalanx.shutdown()


@phalanx.remote
class Member:
    def __init__(self, rank):
        self.rank = rank

    def join(self, size, name, timeout_ms=200_000):
        collective.init_collective_group(size, self.rank, "gloo", name, timeout_ms)
        return collective.get_rank(name), collective.get_collective_group_size(name)

    def leave(self, name):
        collective.destroy_collective_group(name)
        return collective.is_group_initialized(name)

    def allreduce(self, kind, op, name="group"):
        tensor = kind.full((4,), float(self.rank + 1))
        collective.allreduce(tensor, name, op)
        return tensor.tolist()

    def reduce(self, name="group"):
        array = numpy.full(2, float(self.rank + 1))
        collective.reduce(array, 1, name)
        return array.tolist()

    def broadcast(self, name="group"):
        tensor = torch.full((2,), float(self.rank))
        collective.broadcast(tensor, 2, name)
        return tensor.tolist()

    def allgather(self, name="group"):
        found = [torch.zeros(2) for _ in range(SIZE)]
        collective.allgather(found, torch.full((2,), float(self.rank)), name)
        return [tensor.tolist() for tensor in found]

    def reducescatter(self, name="group"):
        array = numpy.zeros(2)
        parts = [numpy.full(2, float(part)) for part in range(SIZE)]
        collective.reducescatter(array, parts, name)
        return array.tolist(), [part.tolist() for part in parts]

    def ring(self, name="group"):
        array = numpy.full(300_000, self.rank)
        if self.rank == 0:
            collective.send(array, 1, name)
        found = numpy.empty_like(array)
        collective.recv(found, (self.rank - 1) % SIZE, name)
        if self.rank > 0:
            collective.send(array, (self.rank + 1) % SIZE, name)
        collective.barrier(name)
        return int(found[0]), int(found[-1])

    def onto(self, array):
        collective.allreduce(array, "group")


def called(members, method, *args):
    return phalanx.get([getattr(one, method).remote(*args) for one in members], timeout=300)


@pytest.mark.parametrize("kind", [numpy, torch])
@pytest.mark.parametrize(
    ("op", "value"),
    [(ReduceOp.SUM, 6.0), (ReduceOp.PRODUCT, 6.0), (ReduceOp.MIN, 1.0), (ReduceOp.MAX, 3.0)],
)
def test_allreduce(members, kind, op, value):
    assert called(members, "allreduce", kind, op) == [[value] * 4] * SIZE


def test_reduce_leaves_the_tensors_of_others(members):
    assert called(members, "reduce") == [[1.0, 1.0], [6.0, 6.0], [3.0, 3.0]]


def test_broadcast_and_allgather(members):
    assert called(members, "broadcast") == [[2.0, 2.0]] * SIZE
    assert called(members, "allgather") == [[[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]]] * SIZE


def test_reducescatter_leaves_the_parts(members):
    parts = [[float(part)] * 2 for part in range(SIZE)]
    assert called(members, "reducescatter") == [([3.0 * i] * 2, parts) for i in range(SIZE)]


def test_send_and_recv_in_a_ring(members):
    assert called(members, "ring") == [(2, 2), (0, 0), (1, 1)]


def test_what_is_read_only_is_not_written_to(members):
    array = phalanx.put(numpy.ones(100_000))
    with pytest.raises(ValueError, match="read-only"):
        phalanx.get(members[0].onto.remote(array), timeout=300)


def test_several_groups_a_name_again_and_a_declared_group(members):
    for name in ("one", "two", "one"):
        assert called(members, "join", SIZE, name) == [(rank, SIZE) for rank in range(SIZE)]
        assert called(members, "allreduce", numpy, ReduceOp.SUM, name) == [[6.0] * 4] * SIZE
        assert called(members, "leave", name) == [False] * SIZE
    collective.create_collective_group(members, SIZE, [2, 1, 0], "gloo", "declared", 200_000)
    assert called(members, "allreduce", torch, ReduceOp.SUM, "declared") == [[6.0] * 4] * SIZE


def test_who_waits_for_others_gives_up_and_the_name_is_free_again(members):
    with pytest.raises(TimeoutError, match="not all 3 members"):
        phalanx.get(members[0].join.remote(SIZE, "late", 500), timeout=300)
    with pytest.raises(TimeoutError, match="member 0 has not joined"):
        phalanx.get(members[1].join.remote(SIZE, "late", 500), timeout=300)
    assert called(members, "join", SIZE, "late") == [(rank, SIZE) for rank in range(SIZE)]
