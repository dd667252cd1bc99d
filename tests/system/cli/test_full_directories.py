"""Directories of a node that are full: real nodes on small disks, in a mount namespace."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest
from tests.system_programs import find_tool

PRELUDE = """
import os, subprocess, sys
from tests.system.cli.conftest import Machine
from tests.polling import eventually

disks = sys.argv[1]

def fill(name, leave=0):
    place = os.statvfs(os.path.join(disks, name))
    with open(os.path.join(disks, name, "ballast"), "wb") as ballast:
        ballast.write(bytes(max(place.f_bavail * place.f_frsize - leave, 0)))

def empty(name):
    os.unlink(os.path.join(disks, name, "ballast"))

def bytes_of(name):
    place = os.statvfs(os.path.join(disks, name))
    return (place.f_blocks - place.f_bfree) * place.f_frsize

def wait_for(node, state):
    return eventually(
        lambda: (row := machine.nodes()[node])["state"] == state and row["reason"] + " "
    )

def prints(megabytes):
    line = "x" * 999
    return ("--", "python3", "-c", f"for _ in range({megabytes} * 1000): print({line!r})")

machine = Machine()
try:
"""
END = """
finally:
    machine.end()
print("held")
"""


@pytest.fixture
def on_small_disks(tmp_path):
    """Run a program of its own where `a`, `b` and /var/tmp are disks of this many MiB."""
    unshare = find_tool("unshare")
    if unshare is None:
        pytest.skip("unshare is missing: apt-get install util-linux")
    alone = [unshare, "--map-root-user", "--mount", "--", "sh", "-euc"]
    if subprocess.run([*alone, "mount -t tmpfs none /mnt"], check=False).returncode:
        pytest.skip("this kernel lets nobody mount a small disk in a namespace")

    def run(program):
        names = [str(tmp_path / name) for name in ("a", "b")]
        for name in names:
            os.mkdir(name)
        mounts = "; ".join(
            f"mount -t tmpfs -o size=16m,mode=1777 none {place}" for place in (*names, "/var/tmp")
        )
        text = PRELUDE + textwrap.indent(textwrap.dedent(program), "    ") + END
        script = f'{mounts}; exec "$@"'
        done = subprocess.run(
            [*alone, script, "sh", sys.executable, "-c", text, str(tmp_path)],
            capture_output=True,
            text=True,
            check=False,
            env={k: v for k, v in os.environ.items() if k != "PHALANX_TESTS_WARM_PARENT"},
        )
        assert done.stdout.endswith("held\n"), done.stdout + done.stderr

    return run


def test_a_node_whose_disk_is_full_takes_nothing_new_and_heals(on_small_disks):
    on_small_disks(
        """
        machine.env["TMPDIR"] = os.path.join(disks, "a")
        address = machine.start_head()
        machine.env["TMPDIR"] = os.path.join(disks, "b")
        machine.join(address, "second")
        fill("a")
        assert "what jobs print" in wait_for("first", "DRAINING")
        assert "is full" in machine.nodes()["first"]["reason"]
        health = machine.phalanx("health")
        assert health.returncode == 1, health.stdout
        assert "takes no new work: its directory for what jobs print" in health.stdout
        assert "is full" in machine.done("events")
        for number in range(3):
            name = f"elsewhere{number}"
            assert machine.done("run", "--name", name, "--", "echo", "printed") == "printed\\n"
        second = machine.nodes()["second"]["node_id"]
        fill("b")
        wait_for("second", "DRAINING")
        machine.done("run", "--detach", "--name", "waits", "--", "echo", "later")
        assert machine.jobs()["waits"]["state"] == "Pending"
        empty("b")
        eventually(lambda: machine.jobs()["waits"]["state"] == "Completed")
        assert machine.done("logs", "waits") == "later\\n"
        empty("a")
        wait_for("first", "ALIVE")
        assert machine.phalanx("health").returncode == 0
        """
    )


def test_what_ended_jobs_have_printed_is_bounded_in_sum(on_small_disks):
    on_small_disks(
        """
        machine.env["TMPDIR"] = os.path.join(disks, "a")
        machine.start_head()
        for number in range(6):
            machine.done("run", "--detach", "--name", f"job{number}", *prints(2))
            eventually(lambda: machine.jobs()[f"job{number}"]["state"] == "Completed")
        assert bytes_of("a") < 6 << 20
        assert machine.done("run", "--name", "small", "--", "echo", "1") == "1\\n"
        assert "were dropped" in machine.phalanx("logs", "job0").stderr
        assert "x" * 999 in machine.done("logs", "job5")
        assert machine.nodes()["first"]["state"] == "ALIVE"
        """
    )


def test_output_that_a_full_disk_may_have_lost_is_said(on_small_disks):
    on_small_disks(
        """
        machine.env["TMPDIR"] = os.path.join(disks, "a")
        machine.start_head()
        go = os.path.join(machine.home, "go")
        waits = f"import os; print(1)\\nwhile not os.path.exists({go!r}): pass"
        machine.done("run", "--detach", "--name", "lost", "--", "python3", "-c", waits)
        eventually(lambda: machine.jobs()["lost"]["state"] == "Running")
        fill("a")
        wait_for("first", "DRAINING")
        open(go, "w").close()
        eventually(lambda: machine.jobs()["lost"]["state"] in ("Completed", "Failed"))
        assert "output may be lost" in machine.done("explain", "lost")
        """
    )


def test_printing_does_not_fill_a_small_runtime_directory(on_small_disks):
    on_small_disks(
        """
        run = machine.env["XDG_RUNTIME_DIR"]
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m,mode=700", "none", run], check=True)
        os.mkdir(machine.root, 0o700)
        machine.start_head()
        before = bytes_of(run)
        for number in range(3):
            machine.done("run", "--detach", "--name", f"job{number}", *prints(6))
            eventually(lambda: machine.jobs()[f"job{number}"]["state"] == "Completed")
        assert bytes_of(run) < before + (1 << 20)
        done = machine.phalanx("run", "--", "python3", "-c", "print(1)")
        assert (done.returncode, done.stdout) == (0, "1\\n"), done.stderr
        """
    )
