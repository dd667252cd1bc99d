"""The pool behaves as multiprocessing.Pool does."""

from __future__ import annotations

import gc
import itertools
import multiprocessing
import os
import pickle
import sys
import threading
from multiprocessing.pool import MaybeEncodingError, ThreadPool  # type: ignore[attr-defined]  # typeshed does not know it
from typing import Any

import pytest

from phalanx.adapters.ray.modules.multiprocessing import pool as ray_pool
from phalanx.errors import ActorError
from phalanx.util.multiprocessing import Pool, TimeoutError
from phalanx.util.multiprocessing.batch import UnsentResultError

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
    """Return Phalanx's pool, or the standard library's as the reference for the same calls."""
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


@pytest.mark.parametrize("form", ["imap", "imap_unordered"])
def test_imap_raises_what_its_input_raises_when_it_is_read(any_pool, form):
    def items(count):
        yield from range(count)
        raise KeyError("no more input")

    results = getattr(any_pool, form)(square, items(0))
    with pytest.raises(KeyError, match="no more input"):
        next(results)
    assert [next(results) for results in [any_pool.imap(square, items(2))] for _ in "ab"] == [0, 1]


def test_what_cannot_be_pickled_raises_what_pickle_said(pool):
    class Unpicklable:
        def __reduce__(self):
            raise LookupError("cannot pickle")

    with pytest.raises(LookupError, match="cannot pickle"):
        pool.map(square, [Unpicklable()])


def test_errors_say_where_they_were_raised(pool):
    with pytest.raises(ValueError, match="three") as caught:
        pool.apply(fail_at_three, (3,))
    assert type(caught.value) is ValueError
    assert 'raise ValueError("three")' in str(caught.value.__cause__)


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


@pytest.mark.parametrize("form", ["imap", "imap_unordered"])
def test_under_rays_names_imap_gives_what_failed_as_a_value(ray, form):
    with ray_pool.Pool(2) as made:
        got = sorted(getattr(made, form)(fail_at_three, range(5)), key=str)
        assert got[:4] == [0, 1, 2, 4]
        assert isinstance(got[4], ray_pool.PoolTaskError)
        assert isinstance(got[4].underlying, ValueError)
        with pytest.raises(ValueError, match="three"):
            made.map(fail_at_three, range(5))


def test_imap_times_out(own_pool, gate):
    results = own_pool.imap_unordered(gate.pass_through, ["later"])
    with pytest.raises(TimeoutError):
        results.next(timeout=0.01)
    gate.open()
    assert results.next(timeout=120) == "later"


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

    with pytest.raises(MaybeEncodingError, match="ValueError"):
        own_pool.apply(fail)


def lock_if_two(number):
    return threading.Lock() if number == 2 else number


@pytest.mark.parametrize("also", [MaybeEncodingError, TypeError, pickle.PicklingError])
def test_a_result_that_cannot_be_pickled_fails_its_batch(pool, also):
    with pytest.raises(also, match="cannot be pickled"):
        pool.map(lock_if_two, range(4), 2)
    results = pool.imap(lock_if_two, range(4))
    assert [next(results), next(results)] == [0, 1]
    with pytest.raises(also, match="cannot be pickled"):
        next(results)
    assert next(results) == 3


def test_an_error_for_what_cannot_be_pickled_can_be_pickled():
    error = UnsentResultError("TypeError('no')", "a lock")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    assert "a lock" in str(error) and "TypeError('no')" in str(error)


def test_a_call_may_raise_keyboard_interrupt(pool):
    def interrupt(number):
        raise KeyboardInterrupt(f"at {number}")

    with pytest.raises(KeyboardInterrupt, match="at 3"):
        pool.apply(interrupt, (3,))


def test_a_call_that_exits_loses_its_process_and_batch(own_pool):
    with pytest.raises(ActorError, match="exit code 3"):
        own_pool.apply(sys.exit, (3,))
    assert own_pool.map(square, range(3)) == [0, 1, 4]


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
        ({"maxtasksperchild": "12"}, "maxtasksperchild"),
    ],
)
def test_bad_sizes_are_refused(ray, options, text):
    with pytest.raises(ValueError, match=text):
        Pool(**options)


def test_a_pool_is_not_pickled(pool):
    with pytest.raises(NotImplementedError):
        pickle.dumps(pool)


def test_a_pool_that_nobody_closed_warns(ray):
    pool = Pool(1)
    with pytest.warns(ResourceWarning, match="unclosed running multiprocessing pool"):
        del pool
        gc.collect()
