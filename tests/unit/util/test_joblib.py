"""joblib on Phalanx: results, errors, large arguments that are shared, and options."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest

joblib = pytest.importorskip("joblib")

from phalanx.util.joblib import register_phalanx, register_ray  # noqa: E402


@pytest.fixture(params=["phalanx", "ray"])
def backend(ray, request):
    {"phalanx": register_phalanx, "ray": register_ray}[request.param]()
    with joblib.parallel_config(backend=request.param):
        yield request.param


def test_results_come_in_order(backend):
    calls = (joblib.delayed(pow)(value, 2) for value in range(50))
    assert joblib.Parallel(n_jobs=2)(calls) == [value**2 for value in range(50)]


def test_the_calls_run_elsewhere(backend):
    pids = joblib.Parallel(n_jobs=2)(joblib.delayed(os.getpid)() for _ in range(4))
    assert os.getpid() not in pids


def test_errors_are_raised(backend):
    def fail(value):
        return 1 // (value - 3)

    with pytest.raises(ZeroDivisionError):
        joblib.Parallel(n_jobs=2)(joblib.delayed(fail)(value) for value in range(6))


def test_the_backend_goes_on_after_an_error(backend):
    parallel = joblib.Parallel(n_jobs=2)
    with pytest.raises(ZeroDivisionError):
        parallel([joblib.delayed(divmod)(1, 0)])
    assert parallel([joblib.delayed(divmod)(7, 2)]) == [(3, 1)]


def test_large_arguments_are_shared_and_read_only(backend):
    array = np.arange(100_000.0)

    def look(array, place, *, again):
        assert array is again
        return float(array[place]), array.flags.writeable

    calls = (joblib.delayed(look)(array, place, again=array) for place in range(4))
    assert joblib.Parallel(n_jobs=2)(calls) == [(float(place), False) for place in range(4)]


def test_calls_of_joblib_inside_a_task_run_there(backend):
    def inner():
        return joblib.Parallel(n_jobs=2)(joblib.delayed(os.getpid)() for _ in range(3))

    [pids] = joblib.Parallel(n_jobs=2)([joblib.delayed(inner)()])
    assert len(set(pids)) == 1


def test_calls_of_joblib_inside_a_task_run_side_by_side(backend):
    def inner():
        meeting = threading.Barrier(2)
        meet = joblib.delayed(lambda: meeting.wait(60) >= 0)
        return joblib.Parallel(n_jobs=2)(meet() for _ in range(2))

    assert joblib.Parallel(n_jobs=2)([joblib.delayed(inner)()]) == [[True, True]]


def test_all_cpus_are_those_of_the_cluster(backend):
    assert joblib.effective_n_jobs(-1) == 2


def test_an_interrupt_that_a_call_raises_is_raised_here(backend):
    def interrupt():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        joblib.Parallel(n_jobs=2)([joblib.delayed(interrupt)()])


def test_the_initializer_runs_in_every_process(backend):
    def remember(value):
        os.environ["JOBLIB_TEST"] = value

    def recall():
        return os.environ.get("JOBLIB_TEST")

    calls = [joblib.delayed(recall)() for _ in range(4)]
    parallel = joblib.Parallel(n_jobs=2, initializer=remember, initargs=("set",))
    assert set(parallel(calls)) == {"set"}


def test_threads_of_numerical_libraries_are_limited(backend):
    def threads():
        return os.environ["OMP_NUM_THREADS"]

    with joblib.parallel_config(backend=backend, inner_max_num_threads=3):
        assert joblib.Parallel(n_jobs=2)([joblib.delayed(threads)()]) == ["3"]


def test_the_backend_has_its_name_inside_tasks(ray):
    register_phalanx()

    def inner():
        calls = (joblib.delayed(pow)(value, 2) for value in range(3))
        return joblib.Parallel(n_jobs=2, backend="phalanx")(calls)

    [found] = joblib.Parallel(n_jobs=2, backend="phalanx")([joblib.delayed(inner)()])
    assert found == [0, 1, 4]


def test_no_jobs_have_no_meaning(backend):
    with pytest.raises(ValueError, match="n_jobs == 0 in Parallel has no meaning"):
        joblib.Parallel(n_jobs=0)([joblib.delayed(abs)(1)])


def test_options_of_the_tasks(ray, backend):
    def cpus():
        return ray.get_runtime_context().get_assigned_resources()["CPU"]

    with joblib.parallel_config(backend=backend, remote_args={"num_cpus": 2}):
        assert joblib.Parallel(n_jobs=2)([joblib.delayed(cpus)()]) == [2.0]
