"""as_completed and map_unordered: finished results come first, and the number of calls under way is
limited.
"""

from __future__ import annotations

import itertools

import pytest

from phalanx.util import as_completed, map_unordered


@pytest.fixture
def wait_at_zero(ray, gate):
    @ray.remote
    def task(value):
        return gate.pass_through(value) if value == 0 else value

    return task


def test_ready_results_are_not_held_back_by_slow_ones(wait_at_zero, gate):
    results = as_completed([wait_at_zero.remote(value) for value in range(4)])
    assert {next(results) for _ in range(3)} == {1, 2, 3}
    gate.open()
    assert list(results) == [0]


def test_a_chunk_comes_when_all_of_it_is_there_in_the_order_of_the_refs(wait_at_zero, gate):
    refs = [wait_at_zero.remote(value) for value in (5, 0, 3)]
    results = as_completed(refs, chunk_size=2)
    assert [next(results), next(results)] == [5, 3]
    gate.open()
    assert list(results) == [0]
    assert list(as_completed(refs, chunk_size=2, yield_obj_refs=True)) == refs


def test_mapped_calls_come_by_chunks_too(wait_at_zero, gate):
    results = map_unordered(wait_at_zero, [0, 2, 1], chunk_size=2, backpressure_size=3)
    assert [next(results), next(results)] == [2, 1]
    gate.open()
    assert list(results) == [0]


def test_refs_instead_of_results(ray, wait_at_zero):
    refs = [wait_at_zero.remote(value) for value in (1, 2)]
    assert set(as_completed(refs, yield_obj_refs=True)) == set(refs)


def test_no_refs_no_results(ray):
    assert list(as_completed([])) == []


def test_an_error_is_raised_at_its_turn(ray):
    @ray.remote
    def fail():
        raise KeyError("gone")

    with pytest.raises(KeyError):
        list(as_completed([fail.remote()]))


def test_map_unordered_gives_every_result(wait_at_zero):
    assert sorted(map_unordered(wait_at_zero, range(1, 30), chunk_size=3)) == list(range(1, 30))


def test_map_unordered_takes_endless_input(wait_at_zero):
    results = map_unordered(wait_at_zero, itertools.count(1), backpressure_size=4)
    assert len(list(itertools.islice(results, 20))) == 20


def test_no_more_than_the_limit_is_taken_ahead(wait_at_zero, gate):
    taken = []

    def items():
        for value in range(100):
            taken.append(value)
            yield value

    results = map_unordered(wait_at_zero, items(), backpressure_size=3)
    next(results)
    assert len(taken) == 3
    gate.open()


@pytest.mark.parametrize(
    "bad",
    [{"chunk_size": 0}, {"num_returns": 2}, {"backpressure_size": 0}],
)
def test_bad_sizes_are_refused_at_the_call(bad):
    with pytest.raises(ValueError, match=next(iter(bad)).split("_")[0]):
        map_unordered(None, [], **bad)


def test_bad_chunks_are_refused_at_the_call():
    with pytest.raises(ValueError, match="chunk_size"):
        as_completed([], chunk_size=0)
