"""Processes that a task, an actor or a command has started end with it, also those in another Unix
session.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from tests.polling import PATIENCE_S, eventually
from tests.present import present
from tests.system.chaos.footprint import is_running

import phalanx
from phalanx.runtime.os.memory_use import SessionMemory
from phalanx.runtime.os.process_tree import subtrees

from .conftest import none_left

MIB = 2**20
DAEMON = """
import os, sys, time
if os.fork():
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
with open(sys.argv[1] + ".new", "w") as file:
    file.write(str(os.getpid()))
os.rename(sys.argv[1] + ".new", sys.argv[1])
held = bytearray(os.urandom(1) * (int(sys.argv[2]) << 20))
time.sleep(1000)
"""
"""A program that starts a daemon as textbooks describe it: forked twice, in its own Unix session.
The daemon writes its pid to a file.
"""


def start_daemon(path, mib=0):
    """Start a daemon from a task or from a member of a job; return the daemon's pid, or 0 if it has
    not written the pid yet.
    """
    subprocess.run([sys.executable, "-c", DAEMON, path, str(mib)], check=True)
    return int(open(path).read()) if os.path.exists(path) else 0


def pid_in(path):
    eventually(path.exists, "the daemon")
    return int(path.read_text())


def test_a_tree_of_processes_by_parents():
    parents = {2: 1, 3: 2, 4: 3, 5: 1, 6: 5, 7: 99}
    assert subtrees([2, 6], parents) == {2: 2, 3: 2, 4: 2, 6: 6}
    assert subtrees([9], {9: 8, 8: 9}) == {9: 9, 8: 9}


def test_the_daemon_of_an_actor_ends_with_it(machine, tmp_path):
    @phalanx.remote(num_cpus=0)
    class Server:
        def start(self, path):
            start_daemon(path)

    server = Server.remote()
    daemon = tmp_path / "pid"
    phalanx.get(server.start.remote(str(daemon)), timeout=PATIENCE_S)
    pid = pid_in(daemon)
    assert is_running(pid)
    phalanx.kill(server)
    eventually(lambda: not is_running(pid), "the daemon's end")


def test_the_daemon_of_a_task_ends_when_the_task_is_killed_and_others_stay(machine, tmp_path):
    @phalanx.remote(max_retries=0)
    def serve(path):
        import time

        start_daemon(path)
        time.sleep(1000)

    first, second = tmp_path / "first", tmp_path / "second"
    refs = [serve.remote(str(first)), serve.remote(str(second))]
    ending, staying = pid_in(first), pid_in(second)
    phalanx.cancel(refs[0], force=True)
    eventually(lambda: not is_running(ending), "the daemon's end")
    assert is_running(staying)
    phalanx.cancel(refs[1], force=True)
    eventually(lambda: not is_running(staying), "the other's end")


@pytest.mark.parametrize("how", ["end", "cancel"])
def test_the_daemon_of_a_job_ends_with_it(machine, tmp_path, how):
    daemon = tmp_path / "pid"
    then = "exec sleep 1000" if how == "cancel" else f"while ! test -e {daemon}; do :; done"
    command = f"'{sys.executable}' -c '{DAEMON}' {daemon} 0; {then}"
    job = phalanx.submit(phalanx.Job(["sh", "-c", command]))
    pid = pid_in(daemon)
    if how == "cancel":
        assert is_running(pid)
        job.cancel()
    job.wait(PATIENCE_S)
    eventually(lambda: not is_running(pid), "the daemon's end")
    job.delete()
    eventually(none_left)


def test_a_daemon_counts_against_the_memory_limit_of_its_job(machine, tmp_path):
    daemon = tmp_path / "pid"
    command = f"'{sys.executable}' -c '{DAEMON}' {daemon} 80; exec sleep 1000"
    job = phalanx.submit(phalanx.Job(["sh", "-c", command], memory_limit=50 * MIB))
    assert job.wait(PATIENCE_S) == "Failed"
    assert "above its limit of 50 MiB" in job.describe()["members"][0]["reason"]
    pid = pid_in(daemon)
    eventually(lambda: not is_running(pid), "the daemon's end")
    job.delete()
    eventually(none_left)


def test_what_left_its_session_counts_with_those_below_it():
    """This tests the measuring alone: no process here is a subreaper, so the child keeps its living
    parent.
    """
    program = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]])"
    child = (
        "import os, sys; os.setsid(); held = os.urandom(1) * (80 << 20);"
        "print('held', flush=True); sys.stdin.read()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, child],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    try:
        assert present(process.stdout).readline() == b"held\n"
        assert list(SessionMemory().above({process.pid: 50 * MIB})) == [process.pid]
    finally:
        present(process.stdin).close()
        present(process.stdout).close()
        process.wait()


@pytest.mark.parametrize("part", ["driver", "node"])
def test_no_daemon_outlives_the_session(tmp_path, part):
    """The session ends because it is shut down, or because one of its processes dies."""
    program = f"""
import os, sys, subprocess, time
import phalanx
facts = phalanx.init(num_cpus=1, include_dashboard=False)

@phalanx.remote
def serve(path):
    subprocess.run([sys.executable, "-c", {DAEMON!r}, path, "0"], check=True)
    above = [os.getpid()]
    while len(above) < 4:
        with open(f"/proc/{{above[-1]}}/stat") as file:
            above.append(int(file.read().rpartition(")")[2].split()[1]))
    return above[2], above[3]

print(*phalanx.get(serve.remote({str(tmp_path / "pid")!r})), flush=True)
sys.stdin.read()
phalanx.shutdown()
"""
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        _, node = map(int, present(process.stdout).readline().split())
        pid = pid_in(tmp_path / "pid")
        assert is_running(pid)
        if part == "driver":
            present(process.stdin).close()
        else:
            os.kill(node, signal.SIGKILL)
        eventually(lambda: not is_running(pid), "the daemon's end")
    finally:
        process.kill()
        process.wait()
        present(process.stdin).close()
        present(process.stdout).close()
