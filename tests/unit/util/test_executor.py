"""The executor guarantees what concurrent.futures documents."""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import itertools
import multiprocessing
import os
import pickle
import subprocess
import sys
import textwrap
import threading
import weakref
from concurrent.futures.process import BrokenProcessPool

import pytest
from tests.polling import eventually

from phalanx.errors import WorkerCrashedError
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
    done = concurrent.futures.as_completed(futures, timeout=120)
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


def test_cancel_ends_a_task_that_runs(ray, gate, tmp_path):
    def run():
        (tmp_path / "begun").touch()
        try:
            gate.pass_through()
        finally:
            (tmp_path / "ended").touch()

    with Executor() as executor:
        future = executor.submit(run)
        eventually((tmp_path / "begun").exists)
        assert future.cancel()
        with pytest.raises(concurrent.futures.CancelledError):
            future.result(30)
        eventually((tmp_path / "ended").exists)
        assert not gate.door.exists()


def test_a_cancelled_call_makes_room_for_one_with_large_arguments(ray, gate):
    with Executor(num_cpus=2) as other, Executor(1, num_cpus=2) as executor:
        held = other.submit(gate.pass_through)
        first = executor.submit(len, b"never sent")
        large = executor.submit(len, bytes(10_000_000))
        assert first.cancel()
        gate.open()
        assert held.result(60) is None
        assert large.result(60) == 10_000_000


def test_shutdown_waits_and_takes_no_more(ray):
    executor = Executor()
    future = executor.submit(pow, 2, 3)
    executor.shutdown()
    assert future.done()
    with pytest.raises(RuntimeError, match="after shutdown"):
        executor.submit(pow, 2, 3)


@pytest.mark.parametrize("max_workers", [1, None])
def test_shutdown_can_cancel_what_no_worker_has(ray, gate, tmp_path, max_workers):
    def enter(number):
        (tmp_path / str(number)).touch()
        return gate.pass_through(number)

    executor = Executor(max_workers, num_cpus=2)
    running = executor.submit(enter, 0)
    eventually((tmp_path / "0").exists)
    waiting = [executor.submit(enter, number) for number in range(1, 30)]
    executor.shutdown(wait=False, cancel_futures=True)
    assert not running.cancelled()
    assert all(future.cancelled() for future in waiting[-20:])
    gate.open()
    assert running.result(30) == 0


def test_a_result_read_from_map_is_not_kept(ray):
    class Kept:
        pass

    with Executor(2) as executor:
        for made in executor.map(lambda _: Kept(), range(4)):
            gone = weakref.ref(made)
            del made
            gc.collect()
            assert gone() is None


def test_map_reads_no_further_ahead_than_its_buffer(executor):
    taken = []

    def items():
        for value in itertools.count():
            taken.append(value)
            yield value

    results = executor.map(abs, items(), buffersize=3)
    assert [next(results) for _ in range(5)] == [0, 1, 2, 3, 4]
    assert len(taken) <= 8


def test_what_cannot_be_pickled_is_the_error_of_the_future(executor):
    error = executor.submit(id, threading.Lock()).exception(30)
    assert isinstance(error, pickle.PicklingError)
    assert isinstance(error, TypeError)


def test_a_lost_process_fails_its_call_alone(ray):
    with Executor(max_retries=0) as executor:
        lost = executor.submit(os._exit, 1)
        assert isinstance(lost.exception(60), BrokenProcessPool)
        assert isinstance(lost.exception(), WorkerCrashedError)
        assert executor.submit(pow, 2, 3).result(60) == 8


def test_the_initializer_runs_in_processes_of_the_executor_alone(ray):
    def remember(value):
        os.environ["EXECUTOR_TEST"] = value

    def recall():
        return os.environ.get("EXECUTOR_TEST")

    with Executor(2, initializer=remember, initargs=("set",)) as executor, Executor() as other:
        assert {executor.submit(recall).result(60) for _ in range(4)} == {"set"}
        assert {other.submit(recall).result(60) for _ in range(4)} == {None}


def test_an_initializer_that_raises_breaks_the_executor(ray):
    def fail():
        raise KeyError("no license")

    executor = Executor(1, initializer=fail)
    futures = [executor.submit(pow, 2, 3) for _ in range(3)]
    for future in futures:
        with pytest.raises(BrokenProcessPool, match="no license"):
            future.result(60)
    with pytest.raises(BrokenProcessPool, match="no license"):
        executor.submit(pow, 2, 3)
    executor.shutdown()


def test_processes_are_replaced(ray):
    with Executor(1, max_tasks_per_child=2) as executor:
        pids = [executor.submit(os.getpid).result(60) for _ in range(6)]
    assert max(pids.count(pid) for pid in pids) <= 2


def test_a_manager_of_multiprocessing_is_reached_from_tasks(ray):
    def add(shared, value):
        shared.append(value)

    with multiprocessing.get_context("spawn").Manager() as manager, Executor() as executor:
        shared = manager.list()
        list(executor.map(add, [shared] * 3, range(3)))
        assert sorted(shared) == [0, 1, 2]


@pytest.mark.parametrize("more", ["", "executor.shutdown(wait=False)"])
def test_the_end_of_a_program_waits_for_its_calls(tmp_path, more):
    program = f"""
        import atexit, pathlib, time
        import phalanx
        from phalanx.util import Executor

        def write(path, door):
            while not path.with_name("door").exists():
                time.sleep(0.005)
            path.touch()

        @atexit.register
        def too_late():
            try:
                executor.submit(id, None)
            except RuntimeError as error:
                print(error)

        phalanx.init("local", num_cpus=1)
        executor = Executor()
        executor.submit(write, pathlib.Path({str(tmp_path / "written")!r}), None)
        {more}
        print("end", flush=True)
    """
    running = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE, text=True
    )
    assert running.stdout is not None
    assert running.stdout.readline() == "end\n"
    (tmp_path / "door").touch()
    rest, _ = running.communicate(timeout=120)
    assert running.returncode == 0
    assert (tmp_path / "written").exists()
    assert rest == "cannot schedule new futures after shutdown\n"


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"max_workers": 0}, ValueError, "max_workers must be greater than 0 or None, got 0"),
        ({"max_workers": -1}, ValueError, "got -1"),
        ({"max_tasks_per_child": 0}, ValueError, "max_tasks_per_child must be >= 1, got 0"),
        ({"max_tasks_per_child": 2.5}, TypeError, "max_tasks_per_child must be an integer"),
        ({"initializer": 3}, TypeError, "initializer must be a callable, got 3"),
    ],
)
def test_what_cannot_be_is_refused(options, error, text):
    with pytest.raises(error, match=text):
        Executor(**options)


@pytest.mark.parametrize(("size", "error"), [(0, ValueError), ("2", TypeError)])
def test_buffers_that_cannot_be_are_refused(executor, size, error):
    with pytest.raises(error, match="buffersize"):
        executor.map(abs, [1], buffersize=size)


def test_options_that_tasks_do_not_have_are_told_and_nothing_stays_pending(ray):
    executor = Executor(cores=1)
    with pytest.raises((ValueError, TypeError), match="cores"):
        executor.submit(pow, 2, 10)
    executor.shutdown(wait=True)
