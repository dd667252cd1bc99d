"""The surroundings of a task: its process, threads, event loop, folder, session."""

from __future__ import annotations

import pytest


def test_tasks_run_in_other_processes(ray, get):
    import os

    @ray.remote
    def pid():
        return os.getpid()

    assert get(pid.remote()) != os.getpid()


def test_threads_of_the_driver_submit_and_get(ray, get):
    from concurrent.futures import ThreadPoolExecutor

    @ray.remote
    def echo(x):
        return x

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda i: get(echo.remote(i)), range(40))) == list(range(40))


def test_threads_of_a_task_submit_and_get(ray, get):
    from concurrent.futures import ThreadPoolExecutor

    @ray.remote
    def echo(x):
        return x

    @ray.remote
    def parent():
        with ThreadPoolExecutor(4) as pool:
            return list(pool.map(lambda i: ray.get(echo.remote(i)), range(8)))

    assert get(parent.remote()) == list(range(8))


def test_a_task_runs_in_the_main_thread(ray, get):
    import threading

    @ray.remote
    def is_main():
        return threading.current_thread() is threading.main_thread()

    assert get(is_main.remote())


def test_a_task_runs_an_event_loop_of_its_own(ray, get):
    import asyncio

    @ray.remote
    def echo(x):
        return x

    @ray.remote
    def parent():
        async def main():
            return await echo.remote(5)

        return asyncio.run(main())

    assert get(parent.remote()) == 5


def test_a_task_starts_processes(ray, get):
    import subprocess

    @ray.remote
    def shell():
        return subprocess.run(["echo", "hello"], capture_output=True, text=True, check=True).stdout

    assert get(shell.remote()) == "hello\n"


def test_the_standard_input_of_a_task_is_empty(ray, get):
    import sys

    @ray.remote
    def read():
        return sys.stdin.read()

    assert get(read.remote()) == ""


@pytest.mark.with_a_node("the folder is one of the driver's node")
def test_a_task_runs_in_the_drivers_folder(ray, get):
    import os

    @ray.remote
    def folder():
        return os.getcwd()

    assert get(folder.remote()) == os.getcwd()


def test_a_task_is_part_of_the_running_session(ray, get):
    @ray.remote
    def start():
        assert ray.is_initialized()
        ray.init()

    with pytest.raises(RuntimeError):
        get(start.remote())


def test_a_worker_is_reused(ray, get):
    import os

    @ray.remote
    def pid():
        return os.getpid()

    assert len({get(pid.remote()) for _ in range(20)}) < 20


def test_an_actor_made_while_a_worker_of_a_gpu_task_ends_gets_another_one(ray, get, counter):
    @ray.remote(num_gpus=1)  # its worker serves one task
    def once():
        return 1

    for _ in range(5):
        done = once.remote()
        actor = counter.remote()
        assert get([done, actor.add.remote()]) == [1, 1]


def test_what_a_task_changes_of_its_process_stays_for_the_worker_s_next_tasks(ray, get):
    """As on Ray, a worker is one process, and nothing is reset between tasks."""
    import os
    import signal

    @ray.remote
    def change(directory):
        os.chdir(directory)
        os.umask(0o027)
        os.environ["SET_BY_A_TASK"] = "yes"
        signal.signal(signal.SIGUSR2, signal.SIG_IGN)
        return os.getpid()

    @ray.remote
    def see():
        umask = os.umask(0o027)
        os.umask(umask)
        is_ignored = signal.getsignal(signal.SIGUSR2) is signal.SIG_IGN
        return os.getpid(), os.getcwd(), umask, os.environ.get("SET_BY_A_TASK"), is_ignored

    changed, seen = get(change.remote("/")), {}
    while changed not in seen:
        seen = {pid: state for pid, *state in get([see.remote() for _ in range(20)])}
    assert seen[changed] == ["/", 0o027, "yes", True]


def test_a_worker_of_max_calls_1_leaves_nothing_to_the_next_task(ray, get, tmp_path):
    import os

    changed = str(tmp_path)  # no earlier test has left a worker in this directory

    @ray.remote(max_calls=1)
    def change():
        before = os.environ.get("SET_BY_ONE_CALL"), os.getcwd()
        os.environ["SET_BY_ONE_CALL"] = "yes"
        os.chdir(changed)
        return before

    found = [get(change.remote()) for _ in range(4)]
    assert [name for name, _ in found] == [None] * 4
    assert changed not in [directory for _, directory in found]
