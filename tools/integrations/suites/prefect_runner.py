"""Prefect's flows whose tasks run on Phalanx.

Prefect ships no suite for third-party task runners.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from prefect import allow_failure, flow, task, unmapped
from prefect.exceptions import CrashedRun
from prefect.futures import as_completed, wait
from prefect.testing.utilities import prefect_test_harness
from steps import LICENSE, check_place, find_place, on_a_machine, succeed_third

from phalanx.adapters.prefect import PhalanxTaskRunner, remote_options


@pytest.fixture(autouse=True, scope="module")
def _server():
    with prefect_test_harness(server_startup_timeout=120):
        yield from on_a_machine()


RUNNER = PhalanxTaskRunner(remote_args={"num_cpus": 0.5})


@task
def double(value):
    return 2 * value


where = task(find_place)


@task
def fail():
    raise ValueError("as told")


def test_results_go_from_task_to_task():
    @flow(task_runner=RUNNER)
    def program():
        first = double.submit(1)
        second = double.submit(first)
        return first.result(), second.result(), double.submit([second, {"a": first}]).result()

    assert program() == (2, 4, [4, {"a": 2}, 4, {"a": 2}])


def test_tasks_run_in_other_processes_with_their_options():
    @flow(task_runner=RUNNER)
    def program():
        with remote_options(**LICENSE):
            return where.submit().result()

    check_place(program())


def test_a_map():
    @task
    def add(one, other):
        return one + other

    @flow(task_runner=RUNNER)
    def program():
        doubled = double.map(range(4))
        return add.map(doubled, unmapped(10)).result()

    assert program() == [10, 12, 14, 16]


def test_a_coroutine():
    @task
    async def later(value):
        await asyncio.sleep(0)
        return value + 1

    @flow(task_runner=RUNNER)
    async def program():
        return later.submit(1).result(), later.submit(double.submit(2)).result()

    assert asyncio.run(program()) == (2, 5)


def test_an_error_is_raised_where_it_is_read_and_holds_what_needs_it():
    @flow(task_runner=RUNNER)
    def program():
        failed = fail.submit()
        after = double.submit(failed)
        with pytest.raises(ValueError, match="as told"):
            failed.result()
        after.wait()
        return after.state.name

    assert program() == "NotReady"


def test_a_failure_may_be_allowed():
    @task
    def kind(value):
        return type(value).__name__

    @flow(task_runner=RUNNER)
    def program():
        return kind.submit(allow_failure(fail.submit())).result()

    assert program() == "ValueError"


def test_an_error_fails_the_flow():
    @flow(task_runner=RUNNER)
    def program():
        return fail.submit()

    state = program(return_state=True)
    assert state.is_failed() and "1/1 states failed" in state.message


def test_wait_for_orders_tasks(tmp_path: Path):
    path = tmp_path / "written"

    @task
    def write():
        path.write_text("by the first")

    @task
    def read():
        return path.read_text()

    @flow(task_runner=RUNNER)
    def program():
        return read.submit(wait_for=[write.submit()]).result()

    assert program() == "by the first"


def test_what_waits_for_a_failure_does_not_run():
    @flow(task_runner=RUNNER)
    def program():
        after = double.submit(1, wait_for=[fail.submit()])
        after.wait()
        return after.state.name

    assert program() == "NotReady"


def test_tasks_are_tried_again(tmp_path: Path):
    @task(retries=2)
    def flaky():
        return succeed_third(tmp_path)

    @flow(task_runner=RUNNER)
    def program():
        return flaky.submit().result()

    assert program() == 2


def test_a_worker_that_dies_is_a_crash():
    @task
    def die():
        os._exit(3)

    @flow(task_runner=PhalanxTaskRunner(remote_args={"max_retries": 0}))
    def program():
        gone = die.submit()
        with pytest.raises(CrashedRun, match="exit code 3"):
            gone.result()
        return gone.state.name

    assert program() == "Crashed"


def test_waiting_for_many():
    @flow(task_runner=RUNNER)
    def program():
        futures = [double.submit(value) for value in range(5)]
        ended = wait(futures)
        assert not ended.not_done
        return sorted(one.result() for one in as_completed(futures))

    assert program() == [0, 2, 4, 6, 8]


def test_a_task_is_seen_by_the_server_with_its_name():
    from prefect.client.orchestration import get_client

    @flow(task_runner=RUNNER)
    def program():
        future = double.submit(21)
        future.wait()
        return future.task_run_id

    task_run_id = program()
    with get_client(sync_client=True) as client:
        run = client.read_task_run(task_run_id)
    assert run.name.startswith("double") and run.state.is_completed()


def test_a_runner_by_itself():
    assert RUNNER.duplicate().remote_args == {"num_cpus": 0.5}
    with pytest.raises(RuntimeError, match="not started"):
        RUNNER.submit(double, {"value": 1})
    with RUNNER.duplicate() as runner:
        assert runner.submit(double, {"value": 4}).result() == 8


def test_workers_use_the_temporary_server_of_a_flow(tmp_path: Path):
    script = Path(__file__).parents[3] / "examples" / "integrations" / "prefect_flow.py"
    patient = {"PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "150"}
    env = {**os.environ, "HOME": str(tmp_path), **patient}
    done = subprocess.run(
        [sys.executable, str(script)], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "best: 11985" in done.stdout
    assert (done.stdout + done.stderr).count("Starting temporary server") == 1
