"""Signals to a command that has containers. podman passes the signals on to the containers, so the
node itself sends them to no process below podman's monitor.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from tests.polling import eventually

from phalanx.runtime.os.process_tree import ask_to_end, kill_trees, signal_command

TELLS = """
trap 'echo NAME >> got' TERM USR1; trap 'echo asked-NAME >> got' WINCH
echo $$ > NAME.pid
MORE
while :; do sleep 1000 & wait $!; done
"""


def script(name: str, more: str = "") -> str:
    """Return a script that writes its name for each signal. A shell handles a WINCH after the
    others, because its number is the highest.
    """
    return TELLS.replace("NAME", name).replace("MORE", more)


@pytest.fixture
def command(tmp_path: Path) -> Iterator[dict[str, int]]:
    """Yield the pids of a command, of podman's monitor in its own session, and of a process below
    the monitor.
    """
    monitor = tmp_path / "conmon"
    monitor.write_text("#!/bin/sh\n" + script("conmon", "sh inside &"))
    monitor.chmod(0o755)
    (tmp_path / "inside").write_text(script("inside"))
    (tmp_path / "leader").write_text(script("leader", "setsid ./conmon &"))
    leader = subprocess.Popen(["sh", "leader"], cwd=tmp_path, start_new_session=True)
    names = ("leader", "conmon", "inside")
    files = [tmp_path / f"{name}.pid" for name in names]
    eventually(lambda: all(file.exists() and file.read_text() for file in files), "all begin")
    yield {name: int(file.read_text()) for name, file in zip(names, files, strict=True)}
    kill_trees([leader.pid])
    leader.wait()


def got(directory: Path) -> list[str]:
    file = directory / "got"
    return file.read_text().split() if file.exists() else []


def has(directory: Path, word: str) -> bool:
    return word in got(directory)


@pytest.mark.parametrize(
    "send",
    [
        lambda pid: ask_to_end(pid, [pid]),
        lambda pid: signal_command(pid, signal.SIGUSR1, "all"),
        lambda pid: signal_command(pid, signal.SIGUSR1, "command"),
    ],
    ids=["end", "all", "command"],
)
def test_the_node_sends_no_signal_below_the_monitor_of_podman(
    command: dict[str, int], tmp_path: Path, send: Callable[[int], None]
) -> None:
    send(command["leader"])
    for name, pid in command.items():
        os.kill(pid, signal.SIGWINCH)
        eventually(partial(has, tmp_path, f"asked-{name}"), f"the answer of {name}")
    assert [one for one in got(tmp_path) if not one.startswith("asked-")] == ["leader"]
