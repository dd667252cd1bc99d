"""Jobs, tasks and actors on a real GPU: which devices they see, and which work is listed on it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.gpu.conftest import PROGRAM
from tests.polling import eventually

import phalanx

REPO = str(Path(__file__).parents[2])


def card(machine: Any) -> Any:
    return json.loads(machine.done("top", "--json"))["devices"][0]


def test_a_process_is_shown_with_its_job_and_a_strange_one_as_nobodys(
    machine: Any, use: Any
) -> None:
    machine.start_head()
    eventually(lambda: card(machine)["memory_total"])
    command = (sys.executable, PROGRAM, "512", "600")
    machine.done("run", "-d", "--gpus", "1", "--name", "train", "--", *command)
    stranger = use(256)
    shown = eventually(lambda: [one for one in [card(machine)] if len(one["processes"]) == 2])[0]
    assert shown["holders"] == ["train worker-0"]
    whose = {holder: (pid, size) for pid, size, holder in shown["processes"]}
    assert whose[""][0] == stranger.pid
    assert whose["train worker-0"][1] >= 512 << 20
    eventually(lambda: (card(machine)["busy"] or 0) > 0.5)
    machine.done("cancel", "train")
    eventually(lambda: [holder for _, _, holder in card(machine)["processes"]] == [""])


def test_a_reader_that_was_killed_is_there_again(machine: Any) -> None:
    machine.start_head()
    eventually(lambda: card(machine)["memory_total"])
    first = eventually(lambda: _readers(machine))[0]
    os.kill(first, 9)
    eventually(lambda: [pid for pid in _readers(machine) if pid != first])
    eventually(lambda: card(machine)["memory_total"])


def _readers(machine: Any) -> list[int]:
    """Return the pids of the device readers that belong to nodes of this machine."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        home = f"HOME={machine.home}".encode()
        if b"phalanx.runtime.devices.process" in words and home in variables:
            found.append(int(pid))
    return found


@pytest.mark.parametrize("entry", [0, slice(0, 12)], ids=["number", "uuid"])
def test_a_job_sees_its_device_by_the_name_that_the_node_was_shown(
    machine: Any, said: Any, entry: Any
) -> None:
    shown = "0" if entry == 0 else said("uuid")[0][entry]
    script = "import os; print('sees', os.environ['CUDA_VISIBLE_DEVICES'])"
    machine.done("start", "--head", "--port", "0", CUDA_VISIBLE_DEVICES=shown)
    assert f"sees {shown}" in machine.done("run", "--gpus", "1", "--", sys.executable, "-c", script)


@pytest.fixture
def session() -> Iterator[None]:
    phalanx.init(
        num_cpus=4, include_dashboard=False, runtime_env={"env_vars": {"PYTHONPATH": REPO}}
    )
    yield
    phalanx.shutdown()


@phalanx.remote(num_cpus=0)
def look() -> tuple[str | None, list[int] | list[str], str, int]:
    from tests.gpu.program import Cuda

    cuda = Cuda()
    return os.environ.get("CUDA_VISIBLE_DEVICES"), phalanx.get_gpu_ids(), cuda.name, cuda.count


@phalanx.remote(num_cpus=0)
class Holder:
    def hold(self, size: int) -> int:
        from tests.gpu.program import Cuda

        self.cuda = Cuda()
        self.place = self.cuda.take(size)
        return os.getpid()


def test_a_task_sees_its_device_alone(session: None) -> None:
    visible, ids, _, count = phalanx.get(look.options(num_gpus=1).remote(), timeout=60)
    assert (visible, ids, count) == (str(ids[0]), [0], 1)


def test_two_halves_are_on_one_device_at_once(session: None, said: Any) -> None:
    halves = [Holder.options(num_gpus=0.5).remote() for _ in range(2)]
    pids = phalanx.get([one.hold.remote(256 << 20) for one in halves], timeout=60)
    assert len(set(pids)) == 2
    assert int(said("memory.used")[0]) >= 512
    for one in halves:
        phalanx.kill(one)
    eventually(lambda: int(said("memory.used")[0]) < 512)
