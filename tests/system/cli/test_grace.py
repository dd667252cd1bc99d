"""The grace of programs below shells: it lasts until the last of the programs has ended, or until
its time is over.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import contextmanager

import pytest
from tests.polling import eventually
from tests.system.cli.conftest import COMMAND, Machine
from tests.system.cli.terminals import Terminal

from phalanx.runtime.os.process_tree import group_of, is_group_alive

SAVER = """
import os, signal, sys, time
def path(name):
    return os.path.join(sys.argv[1], name)
def save(*_):
    open(path("asked"), "a").write("x")
    while not os.path.exists(path("go")):
        time.sleep(0.01)
    open(path("saved"), "w").close()
    print("saved", flush=True)
    os._exit(0)
signal.signal(signal.SIGTERM, save)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
with open(path("new"), "w") as file:
    file.write(f"{os.getppid()} {os.getpid()}")
os.rename(path("new"), path("pids"))
while True:
    signal.pause()
"""
"""A program that waits for the file `go` when it is asked to end, then saves its state and ends."""


class Saver:
    """Runs SAVER below a shell that ends at the first signal."""

    def __init__(self, directory):
        self.directory = directory
        program = directory / "saver.py"
        program.write_text(SAVER)
        self.line = f"{sys.executable} {program} {directory}; true"
        self.alone = ("sh", "-c", self.line)

    def pids(self):
        """Return the process ids of the shell and of the program."""
        file = self.directory / "pids"
        eventually(file.exists)
        return [int(pid) for pid in file.read_text().split()]

    def has(self, name):
        return (self.directory / name).exists()

    def saves_after_its_shell(self):
        """Check that the shell ends when both are asked to, and that the program continues and
        saves.
        """
        shell, program = self.pids()
        eventually(lambda: self.has("asked"))
        eventually(lambda: is_over(shell))
        assert not is_over(program)
        (self.directory / "go").touch()
        eventually(lambda: is_over(program))
        assert self.has("saved")
        assert (self.directory / "asked").read_text() == "x", "once"


def is_over(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


@pytest.fixture(scope="module")
def cluster():
    machine = Machine()
    try:
        machine.address = machine.start_head("--num-cpus", "4")
        yield machine
    finally:
        machine.end()


@pytest.fixture
def saver(tmp_path):
    return Saver(tmp_path)


@pytest.fixture
def name(request):
    return f"job-{abs(hash(request.node.name)) % 10**8}"


def state_of(machine, name):
    return machine.jobs().get(name, {"state": ""})["state"]


def runs(machine, name, saver, *options, words=None):
    machine.done("run", "-d", "-n", name, "--grace", "600", *options, "--", *(words or saver.alone))
    return saver.pids()


@contextmanager
def begun(machine, *arguments):
    process = machine.begin(COMMAND, *arguments)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_a_job_that_is_cancelled(cluster, saver, name):
    runs(cluster, name, saver)
    cluster.done("cancel", name)
    saver.saves_after_its_shell()
    eventually(lambda: state_of(cluster, name) == "Terminated")
    assert "saved" in cluster.done("logs", name)


def test_a_program_that_has_left_its_shells_session(cluster, saver, name):
    words = ("sh", "-c", f"setsid sh -c '{saver.line}' & wait")
    runs(cluster, name, saver, words=words)
    cluster.done("cancel", name)
    saver.saves_after_its_shell()
    eventually(lambda: state_of(cluster, name) == "Terminated")


def test_a_program_that_is_stopped(cluster, saver, name):
    """A stopped program is continued when it is asked to end, because it could not end
    otherwise.
    """
    _, program = runs(cluster, name, saver)
    os.kill(program, signal.SIGSTOP)
    cluster.done("cancel", name)
    saver.saves_after_its_shell()


@pytest.mark.parametrize("how", ["suspend", "requeue"])
def test_a_job_that_is_to_run_again(cluster, saver, name, how):
    runs(cluster, name, saver)
    cluster.done(how, name)
    saver.saves_after_its_shell()
    if how == "suspend":
        eventually(lambda: state_of(cluster, name) == "Aborted")
        cluster.done("resume", name)
    eventually(lambda: state_of(cluster, name) == "Running")
    cluster.done("cancel", name)


def test_a_job_that_gives_way_to_another(cluster, saver, name):
    cluster.done("queue", "create", f"{name}-q", "--capability", "cpu=4")
    runs(cluster, name, saver, "-q", f"{name}-q", "--cpus", "4", "--priority", "1")
    cluster.done("update", name, "--priority", "1")
    with begun(
        cluster, "run", "-q", f"{name}-q", "--cpus", "4", "--priority", "9", "--", "echo", "mine"
    ) as other:
        saver.saves_after_its_shell()
        assert other.communicate(timeout=90)[0] == "mine\n"
    cluster.done("cancel", name)


def test_the_grace_is_over(cluster, saver, name):
    cluster.done("run", "-d", "-n", name, "--grace", "0.5", "--", *saver.alone)
    _, program = saver.pids()
    cluster.done("cancel", name)
    eventually(lambda: is_over(program))
    eventually(lambda: state_of(cluster, name) == "Terminated")
    assert not saver.has("saved")


def test_what_a_shell_leaves_behind_by_itself_has_no_grace(cluster, saver, name):
    wait = f"until [ -e {saver.directory}/pids ]; do :; done"
    words = ("sh", "-c", f"({saver.line}) & {wait}")
    _, program = runs(cluster, name, saver, words=words)
    eventually(lambda: state_of(cluster, name) == "Completed")
    assert is_over(program)


def test_a_step_of_a_job_that_is_cancelled(cluster, saver, name):
    cluster.done("run", "-d", "-n", name, "--grace", "600", "--", "sh", "-c", "sleep 1000; true")
    eventually(lambda: state_of(cluster, name) == "Running")
    with begun(cluster, "step", "--job", name, "--", *saver.alone) as step:
        saver.pids()
        cluster.done("cancel", name)
        saver.saves_after_its_shell()
        assert "saved" in step.communicate(timeout=90)[0]
    eventually(lambda: state_of(cluster, name) == "Terminated")


def test_a_step_whose_command_is_asked_to_end(cluster, saver, name):
    """The command of the step ends its programs, shows their last output, and returns the code of
    the signal.
    """
    cluster.done("run", "-d", "-n", name, "--grace", "600", "--", "sleep", "1000")
    eventually(lambda: state_of(cluster, name) == "Running")
    with begun(cluster, "step", "--job", name, "--", *saver.alone) as step:
        saver.pids()
        step.terminate()
        saver.saves_after_its_shell()
        assert "saved" in step.communicate(timeout=90)[0]
        assert step.returncode == 128 + signal.SIGTERM
    cluster.done("cancel", name)


def test_a_step_whose_command_is_killed(cluster, saver, name):
    cluster.done("run", "-d", "-n", name, "--grace", "600", "--", "sleep", "1000")
    eventually(lambda: state_of(cluster, name) == "Running")
    with begun(cluster, "step", "--job", name, "--", *saver.alone) as step:
        saver.pids()
        step.kill()
        saver.saves_after_its_shell()
    cluster.done("cancel", name)


def test_a_program_at_a_terminal(cluster, saver, name):
    terminal = Terminal(cluster, "run", "--pty", "-n", name, "--grace", "600", "--", *saver.alone)
    try:
        saver.pids()
        cluster.done("cancel", name)
        saver.saves_after_its_shell()
    finally:
        terminal.close()
    eventually(lambda: state_of(cluster, name) == "Terminated")


def test_a_node_that_ends_takes_all_of_them_along(machine, saver):
    machine.start_head()
    _, program = runs(machine, "left", saver)
    group = group_of(program)
    machine.done("cancel", "left")
    eventually(lambda: saver.has("asked"))
    machine.done("stop", "--force")
    eventually(lambda: not is_group_alive(group))
    assert not saver.has("saved")
