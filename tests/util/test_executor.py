"""The executor keeps the promises of concurrent.futures."""

from __future__ import annotations

import asyncio
import concurrent.futures

import pytest

from phalanx.util import Executor


@pytest.fixture(params=[None, 1, 2], ids=["unlimited", "one", "two"])
def executor(ray, request):
    with Executor(request.param) as made:
        yield made


def test_submit_gives_the_result(executor):
    assert executor.submit(pow, 2, 10).result(30) == 1024
    assert executor.submit(lambda *, x: x, x="by name").result(30) == "by name"


def test_errors_come_back_as_their_own_class(executor):
    def fail():
        raise KeyError("gone")

    assert isinstance(executor.submit(fail).exception(30), KeyError)


def test_many_at_once(executor):
    def negative(value):
        return -value

    futures = [executor.submit(negative, value) for value in range(50)]
    assert [future.result(30) for future in futures] == [-value for value in range(50)]


def test_references_arrive_as_values(ray, executor):
    assert executor.submit(sum, ray.put([1, 2, 3])).result(30) == 6


@pytest.mark.parametrize("chunksize", [1, 3, 100])
def test_map_keeps_the_order(executor, chunksize):
    assert list(executor.map(pow, range(10), [2] * 10, chunksize=chunksize)) == [
        value**2 for value in range(10)
    ]


def test_map_ends_at_the_shortest_and_starts_at_once(executor):
    assert list(executor.map(lambda a, b: a + b, [1, 2, 3], [10, 20])) == [11, 22]


def test_map_times_out(executor, gate):
    results = executor.map(gate.pass_through, [1], timeout=0.05)
    with pytest.raises(concurrent.futures.TimeoutError):
        next(results)
    gate.open()


def test_as_completed_of_the_standard_library_works(executor):
    futures = {executor.submit(abs, -value) for value in range(5)}
    done = concurrent.futures.as_completed(futures, timeout=30)
    assert sorted(future.result() for future in done) == [0, 1, 2, 3, 4]


def test_run_in_executor_of_asyncio_works(executor):
    async def use():
        return await asyncio.get_running_loop().run_in_executor(executor, pow, 3, 4)

    assert asyncio.run(use()) == 81


def test_no_more_than_max_workers_at_once(ray, gate, tmp_path):
    def enter(number):
        (tmp_path / str(number)).touch()
        return gate.pass_through(number)

    with Executor(max_workers=1, num_cpus=0.1) as executor:
        futures = [executor.submit(enter, number) for number in range(3)]
        assert futures[2].cancel()
        assert futures[2].cancelled()
        gate.open()
        assert [future.result(30) for future in futures[:2]] == [0, 1]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "1", "door"]


def test_cancel_ends_a_task_that_runs(ray, gate):
    with Executor() as executor:
        future = executor.submit(gate.pass_through)
        assert future.cancel()
        with pytest.raises(concurrent.futures.CancelledError):
            future.result(30)


def test_shutdown_waits_and_takes_no_more(ray):
    executor = Executor()
    future = executor.submit(pow, 2, 3)
    executor.shutdown()
    assert future.done()
    with pytest.raises(RuntimeError, match="shut down"):
        executor.submit(pow, 2, 3)


def test_shutdown_can_cancel_what_is_left(ray, gate):
    executor = Executor(max_workers=1)
    futures = [executor.submit(gate.pass_through) for _ in range(3)]
    executor.shutdown(cancel_futures=True)
    assert [future.cancelled() for future in futures] == [True, True, True]


@pytest.mark.parametrize("count", [0, -1])
def test_too_few_workers_are_refused(count):
    with pytest.raises(ValueError, match=str(count)):
        Executor(count)
