"""Clusters that are started from a configuration file, and `start --block` in the foreground."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
from pathlib import Path
from typing import Any

import pytest

from phalanx.runtime.os.session import started_at

SMALL = """[start]
head = true
port = 0
num_cpus = 1
object_store_memory = "80MB"
labels = { name = "first" }
"""


def configured(machine: Any, text: str = SMALL) -> Path:
    file = Path(machine.home) / ".phalanx" / "config.toml"
    file.parent.mkdir(mode=0o700, exist_ok=True)
    file.write_text(text)
    file.chmod(0o600)
    return file


def blocked(machine: Any, **env: str) -> Any:
    """Run `start --block`, and return its process when its daemons serve."""
    begin = machine.begin(
        "from phalanx.cli import main; main()", "start", "--block", "--num-gpus", "0", **env
    )
    for line in begin.stdout:
        if line.startswith("The token is in"):
            return begin
    raise AssertionError(begin.stderr.read())


def test_a_head_starts_from_the_file_and_a_node_joins_it(machine: Any) -> None:
    file = configured(machine)
    assert machine.done("config", "check").splitlines() == [
        "environment: no fault, 0 values.", f"{file}: no fault, 5 values.",
    ]  # fmt: skip
    machine.done("start", "--num-gpus", "0")
    machine.done("start", "--address", machine.status()["address"], PHALANX_START_LABELS="name=b")
    nodes = machine.nodes()
    assert sorted(nodes) == ["b", "first"]
    assert {node["total"]["CPU"] for node in nodes.values()} == {1}
    rows = {
        one["key"]: one for one in json.loads(machine.done("config", "show", "--json"))["values"]
    }
    assert rows["start.num_cpus"] == {
        "key": "start.num_cpus",
        "value": 1,
        "from": f"{file}, line 4",
    }
    assert rows["start.patience"] == {"key": "start.patience", "value": 60.0, "from": "default"}
    said = machine.done("config", "explain", "num-cpus", PHALANX_START_NUM_CPUS="3")
    assert "holds: 3 from PHALANX_START_NUM_CPUS" in said
    assert f"does not hold: 1 from {file}, line 4" in said


def test_a_fault_of_the_file_stops_start_and_names_its_line(machine: Any) -> None:
    file = configured(machine, SMALL + "num_cpsu = 2\n")
    fault = f"{file}, line 7: there is no key 'num_cpsu' in [start]; did you mean 'num_cpus'?"
    for command in (("start",), ("config", "check"), ("config", "show")):
        done = machine.phalanx(*command)
        assert done.returncode == 2
        assert fault in done.stderr
    assert machine.daemons() == {}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_blocking_ends_with_its_daemons_at_a_signal(machine: Any, number: int) -> None:
    configured(machine)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(f"{machine.directory}/notify")
        manager.settimeout(60)
        with blocked(machine, NOTIFY_SOCKET=f"{machine.directory}/notify") as process:
            assert manager.recv(64) == b"READY=1"
            assert len(machine.daemons()) == 2
            process.send_signal(number)
            assert process.wait(60) == 0
        assert manager.recv(64) == b"STOPPING=1"
    assert machine.daemons() == {}


def test_blocking_fails_when_a_daemon_ends_by_itself(machine: Any) -> None:
    configured(machine)
    with blocked(machine) as process:
        os.kill(machine.daemons()["head"].pid, signal.SIGKILL)
        assert process.wait(60) == 1
        assert "The head has ended by itself: see " in process.stderr.read()
    assert machine.daemons() == {}


def test_daemons_end_when_their_blocking_parent_is_killed(machine: Any) -> None:
    configured(machine)
    with blocked(machine) as process:
        daemons = machine.daemons()
        watched = [os.pidfd_open(one.pid) for one in daemons.values()]
        process.kill()
    for fd in watched:
        await_end(fd)
    assert all(started_at(one.pid) != one.started for one in daemons.values())


def await_end(fd: int) -> None:
    assert select.select([fd], [], [], 60)[0], "the daemon still runs"
    os.close(fd)


def test_a_head_without_a_node(machine: Any) -> None:
    configured(machine)
    machine.done("start", "--no-node")
    assert list(machine.daemons()) == ["head"]
    machine.done("start", "--address", machine.daemons()["head"].address)
    assert len(machine.daemons()) == 2
    refused = machine.phalanx("start", "--address", "127.0.0.1:1", "--no-node")
    assert (refused.returncode, "only for --head" in refused.stderr) == (2, True)
