"""One part of a session is killed: the other parts report it, end, and leave no processes or
files.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest
from tests.polling import eventually
from tests.present import present
from tests.system.chaos.footprint import Footprint, is_running

import phalanx
from phalanx import exceptions as errors

DRIVER = """
import json, sys, time
import numpy
import phalanx

facts = dict(phalanx.init(num_cpus=2, object_store_memory=200 << 20))

@phalanx.remote
def forever():
    time.sleep(1000)

@phalanx.remote
class Keeper:
    def __init__(self):
        self.kept = phalanx.put(numpy.zeros(1_000_000))

    def ready(self):
        return True

running = forever.remote()
keepers = [Keeper.options(name="stays", lifetime="detached").remote()]
kept = [phalanx.put(numpy.zeros(3_000_000)) for _ in range(3)]
phalanx.get([k.ready.remote() for k in keepers])
print(json.dumps(facts), flush=True)
time.sleep(1000)
"""


@pytest.fixture
def driver():
    """Yield a driver in a separate process with running work, an actor and objects; and its
    footprint.
    """
    process = subprocess.Popen([sys.executable, "-c", DRIVER], stdout=subprocess.PIPE, text=True)
    try:
        facts = json.loads(present(process.stdout).readline())
        yield process, Footprint.of(facts, process.pid)
    finally:
        process.kill()
        process.wait()
        present(process.stdout).close()


@pytest.mark.parametrize("how", ["SIGKILL", "SIGTERM", "SIGINT"])
def test_a_driver_that_dies_takes_everything_along(driver, how):
    process, footprint = driver
    pids = footprint.processes()
    assert len(pids) >= 4
    assert footprint.objects()
    process.send_signal(getattr(signal, how))
    process.wait()
    footprint.wait_gone(pids)


def test_when_the_node_dies_what_waits_fails_at_once_and_all_goes(start, ray):
    footprint = start(num_cpus=2)
    pids = footprint.processes()

    @ray.remote(max_retries=-1)
    def forever():
        import time

        time.sleep(1000)

    @phalanx.remote(max_restarts=-1, max_task_retries=-1)
    class Waits:
        def wait(self):
            import time

            time.sleep(1000)

    actor = Waits.options(num_cpus=0).remote()
    waiting = [forever.remote(), forever.remote(), actor.wait.remote()]
    ray.put(b"x" * 3_000_000)
    eventually(lambda: not ray.available_resources().get("CPU"), "two running tasks")
    os.kill(footprint.node, signal.SIGKILL)
    for ref in waiting:
        with pytest.raises(errors.RayError, match=r"(?i)node process|node .*gone"):
            ray.get(ref, timeout=120)
    footprint.wait_gone(pids)


def test_when_the_parent_of_workers_dies_what_they_do_goes_on_and_more_begins(start, ray):
    footprint = start(num_cpus=2)

    @ray.remote(max_retries=0)
    def one(signal_file=""):
        import time

        while signal_file and not os.path.exists(signal_file):
            time.sleep(0.05)
        return 1

    sign = str(footprint.directory / "sign")
    running = one.remote(sign)
    eventually(lambda: ray.available_resources().get("CPU") == 1, "a running task")
    before = footprint.fork_server
    os.kill(before, signal.SIGKILL)
    assert ray.get(one.remote(), timeout=60) == 1
    open(sign, "x").close()
    assert ray.get(running, timeout=60) == 1
    pids = footprint.processes()
    ray.shutdown()
    footprint.wait_gone(pids)


@pytest.mark.parametrize("is_late", [False, True])
def test_what_is_asked_after_the_node_died_fails_and_a_new_start_works(start, ray, is_late):
    footprint = start(num_cpus=1)

    @ray.remote
    def one():
        return 1

    @phalanx.remote
    class Two:
        def two(self):
            return 2

    assert ray.get(one.remote(), timeout=120) == 1
    actor = Two.remote()
    assert ray.get(actor.two.remote(), timeout=120) == 2
    kept = ray.put(b"x" * 3_000_000)
    fork_server = footprint.fork_server
    if is_late:  # its workers and files are still there for a while
        os.kill(fork_server, signal.SIGSTOP)
    os.kill(footprint.node, signal.SIGKILL)
    eventually(lambda: not ray.is_initialized(), "the driver's notice")
    for ask in (
        lambda: ray.get(one.remote(), timeout=120),
        lambda: ray.get(actor.two.remote(), timeout=120),
        lambda: ray.get(Two.remote().two.remote(), timeout=120),
        lambda: ray.get(ray.put(b"y" * 3_000_000), timeout=120),
        ray.cluster_resources,
    ):
        with pytest.raises(errors.RayError) as caught:
            ask()
        assert not isinstance(caught.value, errors.GetTimeoutError), "it hung"
    del kept
    if is_late:
        os.kill(fork_server, signal.SIGCONT)
    start(num_cpus=1)
    assert ray.get(one.remote(), timeout=120) == 1


def test_a_worker_killed_over_and_over_gives_a_clear_error(start, ray):
    start(num_cpus=1)

    @ray.remote(max_retries=2)
    def suicide():
        import os
        import signal

        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(errors.WorkerCrashedError, match=r"suicide.*SIGKILL.*max_retries=2"):
        ray.get(suicide.remote(), timeout=120)


def test_a_killed_worker_leaves_no_objects(start, ray):
    footprint = start(num_cpus=1)

    @phalanx.remote
    class Keeper:
        def __init__(self):
            self.kept = [ray.put(bytes(3_000_000)) for _ in range(4)]

        def pid(self):
            import os

            return os.getpid()

    keeper = Keeper.remote()
    pid = ray.get(keeper.pid.remote(), timeout=120)
    assert len(footprint.objects()) == 4
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: not footprint.objects(), "the end of its objects")
    assert not is_running(pid)
    eventually(lambda: ray.available_resources().get("CPU") == 1, "its CPU")


def test_an_actor_is_made_where_idle_workers_have_ended_and_nobody_has_said_so_yet(start):
    footprint = start(num_cpus=2)

    @phalanx.remote
    class Answering:
        def answer(self):
            return "here"

    phalanx.get(phalanx.remote(lambda: None).remote())
    os.kill(
        footprint.fork_server, signal.SIGSTOP
    )  # it says that they have ended; the node sees more
    try:
        for worker in footprint.workers:
            os.kill(worker, signal.SIGKILL)
        eventually(lambda: not any(map(is_running, footprint.workers)))
        answer = Answering.remote().answer.remote()
        phalanx.nodes()  # answered once the node has seen to what was asked before
    finally:
        os.kill(footprint.fork_server, signal.SIGCONT)
    assert phalanx.get(answer, timeout=60) == "here"
