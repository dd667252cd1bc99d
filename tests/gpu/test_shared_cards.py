"""A shared card: memory limits that hold, shares by MPS, and a daemon that is killed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.gpu.conftest import PROGRAM
from tests.polling import eventually

needs_mps = pytest.mark.skipif(
    shutil.which("nvidia-cuda-mps-control") is None, reason="no nvidia-cuda-mps-control here"
)


def card(machine: Any) -> Any:
    return json.loads(machine.done("devices", "--json"))["devices"][0]


def begin(machine: Any, name: str, mib: int, *options: str) -> None:
    command = (sys.executable, PROGRAM, str(mib), "600")
    machine.done("run", "-d", *options, "--name", name, "--", *command)


def reason(machine: Any, name: str) -> str:
    """The reason of a job's end; empty while it runs."""
    jobs = {job["name"]: job for job in json.loads(machine.done("jobs", "--json"))}
    return str(jobs[name]["reason"]) if jobs[name]["state"] == "Failed" else ""


def test_a_program_that_takes_more_than_it_asked_for_is_ended(machine: Any) -> None:
    machine.start_head()
    eventually(lambda: card(machine)["memory_total"])
    begin(machine, "modest", 512, "--gpu-memory", "2GiB")
    begin(machine, "greedy", 4096, "--gpu-memory", "2GiB")
    said = eventually(lambda: reason(machine, "greedy"))
    assert "out of GPU memory: it used" in said
    assert "above its limit of 2.0 GiB" in said
    eventually(lambda: len(card(machine)["sharers"]) == 1)
    ((holder, held, used, limit),) = card(machine)["sharers"]
    assert (holder, held, limit) == ("modest worker-0", 2 << 30, 2 << 30)
    assert used >= 512 << 20
    machine.done("cancel", "modest")
    eventually(lambda: card(machine)["left"] == 1)


@needs_mps
def test_an_allocation_above_the_limit_fails_with_mps(machine: Any) -> None:
    machine.start_head()
    eventually(lambda: card(machine)["uuid"])
    begin(machine, "greedy", 4096, "--gpu-memory", "2GiB", "--gpu-share", "mps")
    assert eventually(lambda: reason(machine, "greedy"))


@needs_mps
def test_sharers_end_with_a_killed_daemon_and_the_card_is_given_again(machine: Any) -> None:
    machine.start_head()
    eventually(lambda: card(machine)["uuid"])
    for name in ("one", "two"):
        begin(machine, name, 256, "--gpu-memory", "2GiB", "--gpu-share", "mps")
    eventually(lambda: len(card(machine)["sharers"]) == 2)
    os.kill(_daemon(), signal.SIGKILL)
    for name in ("one", "two"):
        said = eventually(partial(reason, machine, name))
        assert "the MPS daemon of GPU 0, which it used, has ended" in said
    eventually(lambda: card(machine)["left"] == 1)
    begin(machine, "three", 256, "--gpu-memory", "2GiB", "--gpu-share", "mps")
    eventually(lambda: card(machine)["sharers"])


def _daemon() -> int:
    """Return the pid of the MPS daemon that a node of this test has started, found by the daemon's
    directory.
    """
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes()
            variables = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            continue
        if (
            b"nvidia-cuda-mps-control" in words
            and b"phalanx"
            in variables.partition(b"CUDA_MPS_PIPE_DIRECTORY=")[2].partition(b"\0")[0]
        ):
            return int(pid)
    raise AssertionError("no MPS daemon of a node runs")
