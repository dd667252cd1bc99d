"""The pool keeps the promises of multiprocessing.Pool."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import pickle
from multiprocessing.pool import ThreadPool
from typing import Any

import pytest

from phalanx.errors import ActorError
from phalanx.util.multiprocessing import Pool, TimeoutError

SMALL = range(11)


def square(value):
    return value * value


def fail_at_three(value):
    if value == 3:
        raise ValueError("three")
    return value


@pytest.fixture(scope="module")
def pool(ray):
    with Pool(2) as made:
        yield made


@pytest.fixture(params=["ours", "the standard library's"])
def any_pool(request):
    """Ours, and the standard library's as the reference for the same calls."""
    if request.param == "ours":
        yield request.getfixturevalue("pool")
    else:
        with ThreadPool(2) as made:
            yield made


@pytest.mark.parametrize("chunksize", [None, 1, 4, 100])
def test_map(any_pool, chunksize):
    assert any_pool.map(square, SMALL, chunksize) == [value * value for value in SMALL]


@pytest.mark.parametrize("count", [0, 1, 11])
def test_map_takes_any_iterable(any_pool, count):
    assert any_pool.map(square, iter(range(count))) == [square(value) for value in range(count)]


def test_starmap(any_pool):
    assert any_pool.starmap(pow, [(2, 3), (3, 2)]) == [8, 9]


def test_apply(any_pool):
    assert any_pool.apply(pow, (2, 5)) == 32
    assert any_pool.apply(dict, (), {"a": 1}) == {"a": 1}


@pytest.mark.parametrize("chunksize", [1, 4])
def test_imap(any_pool, chunksize):
    assert list(any_pool.imap(square, SMALL, chunksize)) == [square(value) for value in SMALL]
    assert sorted(any_pool.imap_unordered(square, SMALL, chunksize)) == [
        square(value) for value in SMALL
    ]


def test_imap_raises_at_the_place_and_goes_on(any_pool):
    results = any_pool.imap(fail_at_three, range(5))
    got = []
    for _ in range(5):
        try:
            got.append(next(results))
        except ValueError as error:
            got.append(str(error))
    assert got == [0, 1, 2, "three", 4]
    with pytest.raises(StopIteration):
        next(results)


def test_map_raises_the_error(any_pool):
    with pytest.raises(ValueError, match="three"):
        any_pool.map(fail_at_three, range(6), 1)


def test_results_wait_ready_and_succeed(any_pool):
    result = any_pool.map_async(square, SMALL)
    result.wait(30)
    assert result.ready()
    assert result.successful()
    assert result.get(0) == [square(value) for value in SMALL]
    failed = any_pool.apply_async(fail_at_three, (3,))
    failed.wait(30)
    assert not failed.successful()


def test_results_time_out(any_pool, gate):
    result = any_pool.apply_async(gate.pass_through, (1,))
    with pytest.raises(multiprocessing.TimeoutError):
        result.get(0.01)
    with pytest.raises(ValueError, match="not ready"):
        result.successful()
    gate.open()
    assert result.get(30) == 1


def test_callbacks_are_called_once(any_pool):
    called: list[Any] = []
    any_pool.map_async(square, [1, 2, 3], 1, callback=called.append).wait(30)
    any_pool.apply_async(fail_at_three, (3,), error_callback=called.append).wait(30)
    assert called[0] == [1, 4, 9]
    assert isinstance(called[1], ValueError)
    assert len(called) == 2


@pytest.fixture
def own_pool(ray):
    with Pool(2) as made:
        yield made


def test_imap_reads_only_a_little_ahead(own_pool):
    taken = []

    def items():
        for value in itertools.count():
            taken.append(value)
            yield value

    results = own_pool.imap(square, items())
    assert [next(results) for _ in range(3)] == [0, 1, 4]
    assert len(taken) < 20


def test_imap_times_out(own_pool, gate):
    results = own_pool.imap_unordered(gate.pass_through, ["later"])
    with pytest.raises(TimeoutError):
        results.next(timeout=0.01)
    gate.open()
    assert results.next(timeout=30) == "later"


def test_the_initializer_runs_in_every_process(ray):
    def remember(value):
        os.environ["POOL_TEST"] = value

    with Pool(2, initializer=remember, initargs=("set",)) as pool:
        assert set(pool.map(lambda _: os.environ["POOL_TEST"], range(8), 1)) == {"set"}


def test_processes_are_replaced(ray):
    with Pool(1, maxtasksperchild=2) as pool:
        pids = pool.map(lambda _: os.getpid(), range(6), 1)
    assert [pids.index(pid) for pid in pids] == [0, 0, 2, 2, 4, 4]


def test_work_goes_to_whoever_is_free(own_pool, gate):
    held = own_pool.apply_async(gate.pass_through, ("held",))
    assert own_pool.map(square, range(6), 1) == [0, 1, 4, 9, 16, 25]
    assert not held.ready()
    gate.open()
    assert held.get(30) == "held"


def test_errors_that_cannot_be_pickled_arrive_as_text(own_pool):
    def fail():
        error = ValueError("a lambda inside")
        error.args = (lambda: None, os.open("/dev/null", os.O_RDONLY), (i for i in ""))
        raise error

    with pytest.raises(RuntimeError, match="ValueError"):
        own_pool.apply(fail)


def test_a_process_that_dies_loses_its_batch_and_comes_back(ray):
    with Pool(1) as pool:
        lost = pool.apply_async(os._exit, (1,))
        with pytest.raises(ActorError):
            lost.get(30)
        assert pool.map(square, range(3)) == [0, 1, 4]


def test_close_lets_work_finish(ray):
    pool = Pool(2)
    result = pool.map_async(square, range(20), 1)
    pool.close()
    with pytest.raises(ValueError, match="not running"):
        pool.apply(square, (1,))
    pool.join()
    assert result.get(0) == [square(value) for value in range(20)]


def test_join_needs_a_closed_pool(own_pool):
    with pytest.raises(ValueError, match="still running"):
        own_pool.join()


def test_terminate_fails_what_is_left(ray, gate):
    pool = Pool(1)
    results = [pool.apply_async(gate.pass_through) for _ in range(3)]
    pool.terminate()
    pool.join()
    for result in results:
        with pytest.raises(Exception):  # noqa: B017  # one was running, two had not begun
            result.get(30)
    with pytest.raises(ValueError, match="not running"), pool:
        pass


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"processes": 0}, "at least one"),
        ({"processes": 3}, "has 2 CPUs"),
        ({"maxtasksperchild": 0}, "maxtasksperchild"),
    ],
)
def test_bad_sizes_are_refused(ray, options, text):
    with pytest.raises(ValueError, match=text):
        Pool(**options)


def test_a_pool_is_not_pickled(pool):
    with pytest.raises(NotImplementedError):
        pickle.dumps(pool)
