"""ActorPool: order, use of any free actor, timeouts, members that join, leave and die."""

from __future__ import annotations

import os

import pytest

import phalanx
from phalanx.errors import ActorDiedError
from phalanx.util import ActorPool


@pytest.fixture
def actors(ray, gate):
    @phalanx.remote(num_cpus=0)
    class Member:
        def double(self, value):
            return 2 * value

        def wait_if(self, value, blocked):
            return gate.pass_through(value) if value == blocked else value

        def fail(self, value):
            raise ValueError(value)

        def die(self, value):
            os._exit(1)

    return [Member.remote() for _ in range(2)]


def double(actor, value):
    return actor.double.remote(value)


def wait_at_zero(actor, value):
    return actor.wait_if.remote(value, 0)


def test_map_keeps_the_order(actors):
    assert list(ActorPool(actors).map(double, range(7))) == [0, 2, 4, 6, 8, 10, 12]


def test_map_unordered_yields_what_is_ready_first(actors, gate):
    results = ActorPool(actors).map_unordered(wait_at_zero, range(4))
    assert [next(results) for _ in range(3)] == [1, 2, 3]
    gate.open()
    assert list(results) == [0]


def test_submit_waits_for_a_free_actor_and_get_next_goes_in_order(actors):
    pool = ActorPool(actors)
    for value in range(5):
        pool.submit(double, value)
    assert not pool.has_free()
    assert [pool.get_next() for _ in range(5)] == [0, 2, 4, 6, 8]
    assert not pool.has_next()
    assert pool.has_free()


def test_nothing_pending_is_the_end(actors):
    pool = ActorPool(actors)
    with pytest.raises(StopIteration):
        pool.get_next()
    with pytest.raises(StopIteration):
        pool.get_next_unordered()


def test_a_timeout_leaves_the_task_in_place(actors, gate):
    pool = ActorPool(actors)
    pool.submit(wait_at_zero, 0)
    with pytest.raises(TimeoutError):
        pool.get_next(timeout=0)
    with pytest.raises(TimeoutError):
        pool.get_next_unordered(timeout=0)
    gate.open()
    assert pool.get_next() == 0


@pytest.mark.parametrize("take", ["get_next", "get_next_unordered"])
def test_a_timed_out_task_can_be_left_behind(actors, gate, take):
    pool = ActorPool(actors)
    pool.submit(wait_at_zero, 0)
    with pytest.raises(TimeoutError, match="left behind"):
        getattr(pool, take)(timeout=0, ignore_if_timedout=True)
    assert not pool.has_next()
    gate.open()
    pool.submit(double, 21)
    assert pool.get_next() == 42


def test_get_next_cannot_follow_get_next_unordered(actors, gate):
    pool = ActorPool(actors)
    pool.submit(wait_at_zero, 0)
    pool.submit(wait_at_zero, 1)
    assert pool.get_next_unordered() == 1
    with pytest.raises(ValueError, match="order"):
        pool.get_next()
    gate.open()
    assert pool.get_next_unordered() == 0


def test_map_drops_what_earlier_calls_left(actors):
    pool = ActorPool(actors)
    pool.submit(double, 100)
    assert list(pool.map(double, [1])) == [2]


def test_an_error_frees_its_actor(actors):
    pool = ActorPool(actors[:1])
    pool.submit(lambda actor, value: actor.fail.remote(value), 1)
    with pytest.raises(ValueError, match="1"):
        pool.get_next()
    assert list(pool.map(double, [3])) == [6]


def test_a_dead_actor_leaves_the_pool(actors):
    pool = ActorPool(actors[:1])
    pool.submit(lambda actor, value: actor.die.remote(value), 1)
    with pytest.raises(ActorDiedError):
        pool.get_next()
    assert not pool.has_free()
    pool.push(actors[1])
    assert list(pool.map(double, [4])) == [8]


def test_pop_and_push(actors):
    first, second = actors
    pool = ActorPool([first])
    pool.submit(double, 1)
    assert pool.pop_idle() is None
    pool.push(second)
    with pytest.raises(ValueError, match="already"):
        pool.push(second)
    with pytest.raises(ValueError, match="already"):
        pool.push(first)
    assert pool.pop_idle() == second
    assert pool.get_next() == 2
    assert pool.pop_idle() == first


def test_a_list_of_refs_is_one_result(ray):
    @phalanx.remote
    class Two:
        @ray.method(num_returns=2)
        def both(self, value):
            return value, -value

    pool = ActorPool([Two.remote()])
    assert list(pool.map(lambda actor, value: actor.both.remote(value), [1, 2])) == [
        [1, -1],
        [2, -2],
    ]


class Keyed(ActorPool):
    """A pool that is derived from ActorPool as Flower's pool is: results are requested by a
    name.
    """

    def submit_as(self, name, fn, value):
        actor = self._idle_actors.pop()
        ref = fn(actor, value)
        self._future_to_actor[ref] = (self._next_task_index, actor, name)
        self._next_task_index += 1

    def take(self, name):
        for ref, (_, actor, whose) in list(self._future_to_actor.items()):
            if whose == name:
                del self._future_to_actor[ref]
                self._return_actor(actor)
                return ref
        raise KeyError(name)


def test_pools_that_derive_from_it_know_its_fields(actors):
    pool = Keyed(actors)
    for name, value in (("a", 1), ("b", 2)):
        pool.submit_as(name, double, value)
    pool.submit(double, 3)  # waits: no actor is idle
    assert pool.has_next()
    assert not pool._idle_actors
    assert phalanx.get(pool.take("b")) == 4
    assert pool.get_next_unordered() == 6  # an actor came back
    assert phalanx.get(pool.take("a")) == 2
    assert not pool.has_next()
