"""Jobs in images with a real podman: what they see, how they end, and that no container is left."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.polling import eventually
from tests.system.cli.conftest import Machine
from tests.system.cli.podman import Podman, why_none

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(why_none()), reason=why_none())]
IN_IMAGE = ("run", "--image", "localhost/busy:1")


@pytest.fixture(scope="module")
def podman(tmp_path_factory) -> Podman:
    return Podman(tmp_path_factory.mktemp("podman"))


@pytest.fixture(scope="module")
def machine(podman):
    machine = Machine()
    machine.env["PATH"] = f"{podman.bin}:{machine.env['PATH']}"
    machine.env["PHALANX_CONTAINER_TOOL"] = "podman"
    try:
        machine.start_head("--num-cpus", "4")
        yield machine
    finally:
        machine.end()


def nothing_is_left(podman: Podman) -> None:
    eventually(lambda: podman.containers() == [], "the end of all containers")


def test_a_command_sees_its_image_its_directory_and_its_variables(machine, podman, tmp_path):
    (tmp_path / "data").write_text("data\n")
    script = 'cat /in-the-image data; echo "$A $PHALANX_TASK_INDEX $HOME"; pwd; id -u; exit 3'
    given = (*IN_IMAGE, "-e", "A=1", "--directory", str(tmp_path), "--", "sh", "-c", script)
    done = machine.phalanx(*given)
    assert done.returncode == 3, done.stderr
    shown = done.stdout.splitlines()
    assert shown[:2] == ["yes", "data"]
    assert shown[2].startswith("1 0 ")
    assert machine.home not in shown[2]
    assert shown[3:] == [str(tmp_path), "0"]
    nothing_is_left(podman)


def test_what_a_command_writes_is_on_the_node(machine, tmp_path):
    code = ("sh", "-c", "echo written > file")
    machine.done(*IN_IMAGE, "--directory", str(tmp_path), "--", *code)
    assert (tmp_path / "file").read_text() == "written\n"


def test_a_gang_runs_in_its_image(machine, podman):
    script = ("sh", "-c", "echo $RANK of $WORLD_SIZE")
    shown = machine.done(*IN_IMAGE, "--gang", "3", "--", *script)
    lines = sorted(line.rpartition(" | ")[2] for line in shown.splitlines())
    assert lines == ["0 of 3", "1 of 3", "2 of 3"]
    nothing_is_left(podman)


def begin(machine: Machine, directory: Path, script: str, *options: str) -> str:
    """Start a job whose command makes the file `began`. When the file exists, return the job's
    name.
    """
    name = f"job-{directory.name.replace('_', '-')}"[:40].rstrip("-")
    given = ("--name", name, "--directory", str(directory), "-d", *options)
    machine.done(*IN_IMAGE, *given, "--", "sh", "-c", script)
    eventually((directory / "began").exists, "the begin of the command")
    return name


def ended(machine: Machine, name: str) -> str:
    states = ("Completed", "Failed", "Aborted", "Terminated", "TimeOut")
    return eventually(
        lambda: state if (state := machine.jobs()[name]["state"]) in states else "", "the end"
    )


TRAPS = 'trap "echo end >> ended; exit 0" TERM; : > began; while :; do sleep 0.1; done'
IGNORES = 'trap "" TERM; : > began; while :; do sleep 0.1; done'


def test_a_cancelled_command_gets_sigterm_once(machine, podman, tmp_path):
    name = begin(machine, tmp_path, TRAPS)
    machine.done("cancel", name)
    ended(machine, name)
    assert (tmp_path / "ended").read_text() == "end\n"
    nothing_is_left(podman)


def test_a_signal_reaches_the_command_once(machine, podman, tmp_path):
    script = 'trap "echo usr >> got" USR1; : > began; while :; do sleep 0.1; done'
    name = begin(machine, tmp_path, script)
    machine.done("signal", name, "USR1")
    eventually((tmp_path / "got").exists, "the signal")
    machine.done("cancel", name)
    ended(machine, name)
    assert (tmp_path / "got").read_text() == "usr\n"
    nothing_is_left(podman)


def test_a_plain_program_ends_at_sigterm(machine, podman, tmp_path):
    name = begin(machine, tmp_path, ": > began; exec sleep 1000", "--grace", "600")
    machine.done("cancel", name)
    ended(machine, name)
    nothing_is_left(podman)


def test_a_command_that_ignores_sigterm_is_killed_and_removed(machine, podman, tmp_path):
    name = begin(machine, tmp_path, IGNORES, "--grace", "3")
    machine.done("cancel", name)
    ended(machine, name)
    nothing_is_left(podman)


def test_a_time_limit_ends_the_container(machine, podman, tmp_path):
    name = begin(machine, tmp_path, IGNORES, "--grace", "1", "--time-limit", "2")
    assert ended(machine, name) == "Failed"
    assert "it ran longer than 2 s" in machine.done("job", name)
    nothing_is_left(podman)


def test_a_container_that_uses_too_much_memory_is_killed(machine, podman, tmp_path):
    script = ": > began; tail /dev/zero"
    name = begin(machine, tmp_path, script, "--memory", "64MiB")
    assert ended(machine, name) == "Failed"
    assert "memory" in machine.done("job", name)
    nothing_is_left(podman)


def test_a_container_that_is_killed_at_once_leaves_nothing(machine, podman, tmp_path):
    name = begin(machine, tmp_path, IGNORES, "--grace", "0")
    machine.done("cancel", name)
    ended(machine, name)
    nothing_is_left(podman)


def test_a_container_outlives_a_restart_of_its_node(machine, podman, tmp_path):
    name = begin(machine, tmp_path, ": > began; until [ -e go ]; do sleep 0.1; done; exit 6")
    machine.done("restart")
    (tmp_path / "go").touch()
    assert ended(machine, name) == "Failed"
    assert "exit code 6" in machine.done("job", name)
    nothing_is_left(podman)


def test_an_image_that_does_not_exist_fails_its_job(machine):
    done = machine.phalanx("run", "--image", "localhost/none:1", "--", "true")
    assert done.returncode != 0
    assert "its environment could not be prepared" in done.stderr
    assert "localhost/none" in done.stderr


def test_a_command_that_the_image_lacks_is_said(machine, podman):
    done = machine.phalanx(*IN_IMAGE, "--", "nonesuch")
    assert done.returncode != 0
    assert "No such file or directory" in done.stdout
    nothing_is_left(podman)
