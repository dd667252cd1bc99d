"""The processes that get the signal before the end: a real shell and its descendants."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from tests.polling import eventually

from phalanx.runtime.os.process_tree import signal_command

CHILD = "trap 'touch child; exit' USR1; touch ready; while :; do sleep 0.05; done"
SHELL = f"trap 'touch shell' USR1; bash -c \"{CHILD}\" & wait; wait; touch over"
PYTHON = """
import os, signal, subprocess, time
signal.signal(signal.SIGUSR1, lambda *_: open("leader", "w").close())
child = subprocess.Popen(["bash", "-c", os.environ["CHILD"]])
child.wait()
while not os.path.exists("end"):
    time.sleep(0.05)
"""


@pytest.fixture
def command(tmp_path):
    """Yield a function that starts a command in a test directory and waits until the command is
    ready.
    """
    started = []

    def start(*argv):
        environment = os.environ | {"CHILD": CHILD}
        process = subprocess.Popen(argv, cwd=tmp_path, env=environment, start_new_session=True)
        started.append(process)
        eventually((tmp_path / "ready").exists)
        return process

    yield start
    for process in started:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_all_that_a_shell_has_started_gets_it_and_the_shell_does_not(command, tmp_path):
    process = command("bash", "-c", SHELL)
    signal_command(process.pid, signal.SIGUSR1, "started")
    eventually((tmp_path / "over").exists)
    assert (tmp_path / "child").exists()
    assert not (tmp_path / "shell").exists()


def test_a_script_that_names_its_shell_is_a_shell(command, tmp_path):
    script = tmp_path / "job"
    script.write_text(f"#!/bin/bash\n{SHELL}\n")
    script.chmod(0o755)
    process = command(str(script))
    signal_command(process.pid, signal.SIGUSR1, "started")
    eventually((tmp_path / "over").exists)
    assert (tmp_path / "child").exists()
    assert not (tmp_path / "shell").exists()


def test_or_the_shell_alone(command, tmp_path):
    process = command("bash", "-c", SHELL)
    signal_command(process.pid, signal.SIGUSR1, "command")
    eventually((tmp_path / "shell").exists)
    assert not (tmp_path / "child").exists()


@pytest.mark.parametrize("argv", [(), ("sh", "-c", 'exec "$0" "$@"')], ids=["itself", "by a shell"])
def test_a_program_gets_it_with_all_that_it_started(command, tmp_path, argv):
    """The command may begin as a shell that the program replaces (`exec`)."""
    process = command(*argv, sys.executable, "-c", PYTHON)
    signal_command(process.pid, signal.SIGUSR1, "started")
    eventually((tmp_path / "leader").exists)
    eventually((tmp_path / "child").exists)


def test_a_command_that_has_ended_is_passed_over(command):
    process = subprocess.Popen(["true"])
    process.wait()
    signal_command(process.pid, signal.SIGUSR1, "started")


def test_a_shell_and_what_it_has_started_get_it_together(command, tmp_path):
    process = command("bash", "-c", SHELL)
    signal_command(process.pid, signal.SIGUSR1, "all")
    eventually((tmp_path / "over").exists)
    assert (tmp_path / "child").exists()
    assert (tmp_path / "shell").exists()
