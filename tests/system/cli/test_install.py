"""The services that `phalanx install` writes, run as systemd runs them."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import socket
import subprocess
from pathlib import Path
from typing import Any

from tests.ports import free_port
from tests.warm import popen_in_use


def commands_of(folder: Path) -> dict[str, list[str]]:
    """The words of ExecStart of each unit."""
    return {
        path.stem: shlex.split(re.findall(r"^ExecStart=(.*)$", path.read_text(), re.MULTILINE)[0])
        for path in folder.glob("*.service")
    }


@contextlib.contextmanager
def service(machine: Any, words: list[str]):
    """Yield a service that is ready, as a service manager would see it."""
    path = f"{machine.directory}/notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(path)
        manager.settimeout(90)
        with popen_in_use()(
            words,
            env=machine.env | {"NOTIFY_SOCKET": path},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                assert manager.recv(64) == b"READY=1"
                os.unlink(path)
                yield process
            finally:
                process.send_signal(signal.SIGTERM)
                process.wait(90)


def test_each_unit_starts_its_part_and_ends_it_at_sigterm(machine: Any) -> None:
    first = machine.done("install", "--user", "--dashboard")
    image = f"{machine.directory}/image"
    units = Path(image + machine.home) / ".config" / "systemd" / "user"
    assert "Nothing was changed" in first
    assert not units.exists()
    done = machine.phalanx("install", "--user", "--dashboard", "--apply", "--root", image)
    assert done.returncode == 0, done.stderr
    config = Path(machine.home) / ".phalanx" / "config.toml"
    config.parent.mkdir(mode=0o700)
    config.write_text(
        '[start]\nport = 0\nnum_cpus = 1\nobject_store_memory = "80MB"\n[dashboard]\nport = 0\n'
    )
    commands = commands_of(units)
    assert sorted(commands) == ["phalanx-dashboard", "phalanx-head", "phalanx-node"]
    with service(machine, commands["phalanx-head"]):
        assert list(machine.daemons()) == ["head"]
        with service(machine, commands["phalanx-node"]) as node:
            assert len(machine.daemons()) == 2
            with service(machine, commands["phalanx-dashboard"]) as page:
                assert "The page of" in machine.done("dashboard")
            assert page.returncode == 0
            assert machine.done("run", "--", "echo", "it works") == "it works\n"
        assert node.returncode == 0
        assert list(machine.daemons()) == ["head"]
    assert machine.daemons() == {}
    kept = machine.done("uninstall", "--user", "--apply", "--root", image)
    assert "config.toml stays" in kept
    assert list(units.iterdir()) == []
    assert (
        machine.done("uninstall", "--user", "--root", image)
        == "No service of Phalanx is installed.\n"
    )


def test_a_node_restarts_while_the_head_stays_and_the_other_way_round(machine: Any) -> None:
    image = f"{machine.directory}/image"
    machine.done("install", "--user", "--apply", "--root", image)
    config = Path(machine.home) / ".phalanx" / "config.toml"
    config.parent.mkdir(mode=0o700)
    config.write_text('[start]\nnum_cpus = 1\nobject_store_memory = "80MB"\n')
    machine.env["PHALANX_START_PORT"] = str(free_port())
    commands = commands_of(Path(image + machine.home) / ".config" / "systemd" / "user")
    node_words = ["env", "-u", "PHALANX_START_PORT", *commands["phalanx-node"]]
    with contextlib.ExitStack() as nodes:
        with service(machine, commands["phalanx-head"]):
            nodes.enter_context(service(machine, node_words))
            machine.done("run", "--detach", "--name", "long", "--", "sleep", "1000")
            until_running(machine)
            before = machine.jobs()["long"]
        with service(machine, commands["phalanx-head"]):
            until_running(machine)
            after = machine.jobs()["long"]
            assert after["started"] == before["started"]
            machine.done("cancel", "long")
            nodes.close()
            assert list(machine.daemons()) == ["head"]


def until_running(machine: Any) -> None:
    machine.done("run", "--cpus", "0", "--", "true")
    assert machine.jobs()["long"]["state"] == "Running"


def test_wrong_uses_are_refused(machine: Any) -> None:
    for words, text in (
        ((), "Give either --system"),
        (("--system", "--user"), "Give either --system"),
        (("--user", "--host", "0.0.0.0"), "--host takes an address"),
        (("--user", "--address", "nowhere"), "HOST:PORT"),
    ):
        done = machine.phalanx("install", *words)
        assert (done.returncode, text in done.stderr) == (2, True), done.stderr
