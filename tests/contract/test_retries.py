"""Retries of tasks after crashes and chosen exceptions, and workers that end after N calls."""

from __future__ import annotations

import os

import pytest


def crashing(ray, tally, crashes, **options):
    """A task whose first `crashes` attempts end their worker."""

    @ray.remote
    def attempt():
        tally.add()
        if tally.count() <= crashes:
            os._exit(1)
        return tally.count()

    return attempt.options(**options)


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def failing(ray, tally, failures, error=ValueError, **options):
    """A task whose first `failures` attempts raise `error`."""

    @ray.remote
    def attempt():
        tally.add()
        if tally.count() <= failures:
            raise error("not yet")
        return tally.count()

    return attempt.options(**options)


def test_a_crash_is_retried(ray, get, tally):
    assert get(crashing(ray, tally, 2, max_retries=2).remote()) == 3


def test_a_crash_is_retried_three_times_by_default(ray, get, tally, errors):
    with pytest.raises(errors.WorkerCrashedError):
        get(crashing(ray, tally, 100).remote())
    assert tally.count() == 4


def test_no_retry_with_zero(ray, get, tally, errors):
    with pytest.raises(errors.WorkerCrashedError):
        get(crashing(ray, tally, 1, max_retries=0).remote())
    assert tally.count() == 1


def test_minus_one_retries_for_ever(ray, get, tally):
    assert get(crashing(ray, tally, 4, max_retries=-1).remote()) == 5


def test_options_change_the_number_of_retries(ray, get, tally):
    @ray.remote(max_retries=0)
    def attempt():
        tally.add()
        if tally.count() == 1:
            os._exit(1)
        return "second"

    assert get(attempt.options(max_retries=1).remote()) == "second"


def test_an_exception_is_not_retried_by_default(ray, get, tally):
    with pytest.raises(ValueError):
        get(failing(ray, tally, 1).remote())
    assert tally.count() == 1


def test_retry_exceptions_retries_any_exception(ray, get, tally):
    task = failing(ray, tally, 2, max_retries=2, retry_exceptions=True)
    assert get(task.remote()) == 3


def test_retry_exceptions_stops_at_max_retries(ray, get, tally):
    task = failing(ray, tally, 100, max_retries=2, retry_exceptions=True)
    with pytest.raises(ValueError, match="not yet"):
        get(task.remote())
    assert tally.count() == 3


def test_retry_exceptions_without_retries_does_nothing(ray, get, tally):
    task = failing(ray, tally, 1, max_retries=0, retry_exceptions=True)
    with pytest.raises(ValueError):
        get(task.remote())
    assert tally.count() == 1


def test_a_listed_exception_is_retried(ray, get, tally):
    task = failing(ray, tally, 1, retry_exceptions=[KeyError, ValueError])
    assert get(task.remote()) == 2


def test_a_subclass_of_a_listed_exception_is_retried(ray, get, tally):
    task = failing(ray, tally, 1, error=KeyError, retry_exceptions=[LookupError])
    assert get(task.remote()) == 2


def test_an_exception_that_is_not_listed_is_not_retried(ray, get, tally):
    task = failing(ray, tally, 1, retry_exceptions=[KeyError])
    with pytest.raises(ValueError):
        get(task.remote())
    assert tally.count() == 1


def test_options_change_the_listed_exceptions(ray, get, tally):
    @ray.remote(retry_exceptions=[KeyError])
    def attempt():
        tally.add()
        if tally.count() == 1:
            raise ValueError("not yet")
        return "second"

    assert get(attempt.options(retry_exceptions=[ValueError]).remote()) == "second"


def test_a_users_own_exception_can_be_listed(ray, get, tally):
    class Flaky(Exception):
        pass

    task = failing(ray, tally, 1, error=Flaky, retry_exceptions=[Flaky])
    assert get(task.remote()) == 2


def test_a_retried_task_feeds_its_dependents(ray, get, tally):
    @ray.remote
    def double(x):
        return 2 * x

    assert get(double.remote(crashing(ray, tally, 1).remote())) == 4


def test_a_worker_killed_from_outside_is_a_crash(ray, get, tally, gate, eventually):
    import signal

    @ray.remote(max_retries=1)
    def target():
        tally.add(f"pid{os.getpid()}")
        gate.enter()
        return "survived"

    ref = target.remote()
    eventually(lambda: gate.entered() == 1)
    [mark] = tally.folder.glob("pid*")
    os.kill(int(mark.name.split("-")[0][3:]), signal.SIGKILL)
    eventually(lambda: gate.entered() == 2)
    gate.open()
    assert get(ref) == "survived"


def test_max_calls_one_uses_a_new_process_each_time(ray, get):
    @ray.remote(max_calls=1)
    def pid():
        return os.getpid()

    pids = [get(pid.remote()) for _ in range(3)]
    assert len(set(pids)) == 3


def test_max_calls_ends_a_worker_after_that_many(ray, get):
    @ray.remote(max_calls=2, num_cpus=4)
    def pid():
        return os.getpid()

    pids = [get(pid.remote()) for _ in range(6)]
    assert max(pids.count(p) for p in pids) <= 2


def test_a_worker_that_made_its_calls_stays_while_others_refer_to_its_objects(
    ray, get, gate, eventually
):
    @ray.remote
    def late():
        gate.enter()
        return "late"

    @ray.remote(max_calls=1)
    def start():
        return os.getpid(), late.remote(), ray.put("put")

    pid, child, put = get(start.remote())
    other, *_ = get(start.remote())
    assert other != pid
    gate.open()
    assert get([child, put]) == ["late", "put"]
    del child, put
    eventually(lambda: not is_alive(pid))


def test_results_outlive_a_worker_that_ended_by_max_calls(ray, get):
    @ray.remote(max_calls=1)
    def blob(i):
        return bytes([i]) * 300_000

    refs = [blob.remote(i) for i in range(4)]
    assert [b[:1] + b[-1:] for b in get(refs)] == [bytes([i]) * 2 for i in range(4)]


def test_a_lost_attempt_with_several_returns_is_repeated(ray, get, tally):
    @ray.remote(num_returns=2, max_retries=1)
    def two():
        tally.add()
        if tally.count() == 1:
            os._exit(1)
        return "a", "b"

    assert get(two.remote()) == ["a", "b"]
