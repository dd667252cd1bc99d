"""Shells inside of jobs, at real terminals and on a real cluster."""

from __future__ import annotations

import signal
import socket
import sys
import threading
from contextlib import contextmanager

import pytest
from tests.polling import eventually
from tests.system.cli.conftest import COMMAND, Machine
from tests.system.cli.terminals import Terminal

from phalanx.protocol.requests.jobs import GetJob


@pytest.fixture(scope="module")
def cluster():
    machine = Machine()
    try:
        machine.address = machine.start_head("--num-cpus", "4")
        yield machine
    finally:
        machine.end()


@contextmanager
def terminal(machine, *arguments):
    found = Terminal(machine, *arguments)
    try:
        yield found
    finally:
        found.close()


SHELL = ("--", "env", "PS1=$ ", "sh", "-i")


def state_of(machine, name):
    return machine.jobs().get(name, {"state": ""})["state"]


def is_running(machine, name):
    return eventually(lambda: state_of(machine, name) == "Running")


def test_a_shell_at_a_terminal(cluster):
    """The shell sees the terminal's size, also after a change; it gets Ctrl-C and Ctrl-Z; its exit
    code is returned, and afterwards this terminal is as before.
    """
    with terminal(cluster, "run", "--pty", "--name", "tty", *SHELL) as one:
        one.wait_for("$ ")
        one.type("stty size; echo $TERM; tty\r")
        assert "30 100\r\nxterm\r\n/dev/" in one.wait_for("$ ")
        one.resize(50, 120)
        one.type("until stty size | grep 50.120; do :; done\r")  # it may come after the words
        one.wait_for("50 120")
        one.wait_for("$ ")
        one.type("cat; echo code $?\r")
        one.wait_for("code $?")
        one.type("typed\r")
        one.wait_for("typed\r\n")
        one.wait_for("typed\r\n")
        one.type("\x03")
        one.wait_for("$ ")
        one.type("exec sh -c 'exit 9'\r")
        assert one.code() == 9
        assert one.is_restored()
    assert state_of(cluster, "tty") == "Failed"
    assert "50 120" in cluster.done("logs", "tty")


def test_whoever_is_killed_at_a_terminal_takes_the_job_along(cluster):
    with terminal(cluster, "run", "--pty", "--name", "lost", *SHELL) as one:
        one.wait_for("$ ")
        one.process.send_signal(signal.SIGKILL)
        eventually(lambda: state_of(cluster, "lost") == "Failed")


def test_whoever_is_asked_to_end_leaves_the_terminal_as_it_was(cluster):
    with terminal(cluster, "run", "--pty", "--name", "asked", *SHELL) as one:
        one.wait_for("$ ")
        one.process.terminate()
        assert one.code() == 128 + signal.SIGTERM
        assert one.is_restored()
        eventually(lambda: state_of(cluster, "asked") in ("Terminated", "Failed"))


def test_a_shell_in_a_job_has_what_the_job_has_and_ends_with_it(cluster):
    cluster.done("run", "--detach", "--name", "host", "--env", "MINE=1", "--", "sleep", "1000")
    is_running(cluster, "host")
    said = cluster.phalanx(
        "shell", "host", "--", "sh", "-c", "echo $MINE $PHALANX_JOB $RANK; exit 7"
    )
    assert (said.stdout, said.returncode) == ("1 host 0\n", 7)
    used = eventually(lambda: cluster.status()["resources"]["CPU"]["used"], "the node's report")
    with terminal(cluster, "shell", "host.worker-0", *SHELL) as one:
        one.wait_for("$ ")
        assert cluster.status()["resources"]["CPU"]["used"] == used
        cluster.done("cancel", "host")
        assert one.code() != 0
        assert one.is_restored()
    refused = cluster.phalanx("shell", "host", "--", "true")
    assert refused.returncode == 1
    assert "does not run: it is" in refused.stderr


def test_what_is_no_member_is_refused(cluster):
    cluster.done("run", "--detach", "--name", "small", "--", "sleep", "1000")
    is_running(cluster, "small")
    refused = cluster.phalanx("shell", "small.nobody")
    assert (refused.returncode, "has no member 'nobody'" in refused.stderr) == (3, True)
    assert cluster.phalanx("shell", "nix").returncode == 3
    cluster.done("cancel", "small")


def test_an_allocation_has_steps_and_is_given_back_with_the_commands_code(cluster):
    inside = f"""{sys.executable} -c "{COMMAND}" step -- sh -c 'echo rank $RANK; exit $RANK'"""
    done = cluster.phalanx("alloc", "--gang", "2", "--name", "held", "--", "sh", "-c", inside)
    assert sorted(done.stdout.splitlines()) == ["worker-0 | rank 0", "worker-1 | rank 1"]
    assert done.returncode == 1
    assert "allocation held is released" in done.stderr
    eventually(lambda: 1 in [one.exit_code for one in cluster.ask(GetJob("held")).members])


def test_an_allocation_ends_with_whoever_holds_it(cluster):
    words = ("sh", "-c", "echo held; exec sleep 1000")
    with cluster.begin(COMMAND, "alloc", "--name", "gone", "--", *words) as process:
        assert process.stdout.readline() == "held\n"  # from here on it holds the places
        process.kill()
        eventually(lambda: state_of(cluster, "gone") == "Failed")


def test_a_port_of_a_members_node(cluster):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def answer():
            sock, _ = server.accept()
            with sock:
                sock.sendall(b"got " + sock.recv(100))

        threading.Thread(target=answer, daemon=True).start()
        cluster.done("run", "--detach", "--name", "web", "--", "sleep", "1000")
        is_running(cluster, "web")
        with cluster.begin(COMMAND, "forward", "web", str(port), "--local", "0") as forwarding:
            here = int(forwarding.stdout.readline().split()[0].split(":")[1])
            with socket.create_connection(("127.0.0.1", here)) as sock:
                sock.sendall(b"this")
                assert sock.recv(100) == b"got this"
                assert sock.recv(100) == b""
            cluster.done("cancel", "web")
            assert forwarding.wait(60) == 0


def test_who_waits_is_told_for_what(cluster):
    cluster.done("run", "--detach", "--name", "full", "--cpus", "4", "--", "sleep", "1000")
    is_running(cluster, "full")
    with cluster.begin(COMMAND, "run", "--name", "next", "--", "true") as waiting:
        said = iter(waiting.stderr.readline, "")
        assert next(said) == "job next\n"
        # At first perhaps no cycle has seen it, and in the end perhaps one has placed it: then it
        # has no position, and is not running yet.
        told = "job next waits: position 1 of queue default"
        assert any(line.startswith(f"{told}; ") for line in said)
        cluster.done("cancel", "full")
        assert waiting.wait(60) == 0
        assert all(line.startswith("job next waits") for line in said)


def test_a_terminal_is_for_one_who_stays(cluster):
    refused = cluster.phalanx("run", "--pty", "--gang", "2", "--", "sh")
    assert refused.returncode == 2
    assert "--pty is for one member" in refused.stderr
    refused = cluster.phalanx("shell", "any", "--address", "ray:auto")
    assert "does not work on a Ray cluster" in refused.stderr
