"""Jobs that share GPUs: their limits, how they end, and recovery. A file declares the devices."""

from __future__ import annotations

import json
import os
import signal
import stat
from pathlib import Path
from typing import Any

import pytest
from tests.polling import PATIENCE_S, eventually
from tests.present import present

import phalanx
from phalanx.api.session import engine_or_start
from phalanx.errors import GangInfeasibleError, OutOfMemoryError
from phalanx.protocol.requests.health import ListDevices

GIB = 2**30
DAEMON = """#!/bin/sh
# Stands in for nvidia-cuda-mps-control: a daemon in the background, with its pid in a file.
[ "$1" = -d ] || exit 2
echo "$CUDA_VISIBLE_DEVICES" > "$CUDA_MPS_PIPE_DIRECTORY/shown"
sleep 100000 > /dev/null 2>&1 &
echo $! > "$CUDA_MPS_PIPE_DIRECTORY/nvidia-cuda-mps-control.pid"
"""


class Card:
    """The file that declares one card of 80 GiB."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.uses()

    def uses(self, *processes: tuple[int, int], **more: Any) -> None:
        """Declare which processes use the card, with the GiB that each of them uses."""
        listed = [[pid, gib * GIB] for pid, gib in processes]
        card = {"uuid": "GPU-a", "memory_total": 80 * GIB, "processes": listed, **more}
        text = json.dumps({"devices": [card]})
        new = self.path.with_suffix(".new")
        new.write_text(text)
        new.rename(self.path)

    @staticmethod
    def row() -> Any:
        (row,) = engine_or_start().ask(ListDevices([]))
        return row


@pytest.fixture
def card(tmp_path: Path, new_cluster: Any, monkeypatch: pytest.MonkeyPatch) -> Card:
    programs = tmp_path / "programs"
    programs.mkdir()
    daemon = programs / "nvidia-cuda-mps-control"
    daemon.write_text(DAEMON)
    daemon.chmod(daemon.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    found = Card(tmp_path / "devices.json")
    new_cluster({"num_cpus": 8, "num_gpus": 1, "devices": str(found.path)})
    eventually(lambda: found.row().uuid, "the first reading")
    return found


def start(room: Any, word: str, **options: Any) -> tuple[Any, int]:
    """Start a job that records its pid; return the job and the pid."""
    path = room.path / word
    command = f"echo $$ > {path}.new; mv {path}.new {path}; exec sleep 100000"
    job = phalanx.submit(phalanx.Job(command, name=word, num_cpus=0, grace_s=0, **options))
    room.wait(word)
    return job, int(path.read_text())


def test_who_uses_too_much_is_ended_and_its_place_is_given_when_its_memory_is_back(
    card: Card, room: Any
) -> None:
    greedy, pid = start(room, "greedy", gpu_memory="60GiB")
    card.uses((pid, 70))
    assert greedy.wait(PATIENCE_S) == "Failed"
    assert "out of GPU memory: it used 70.0 GiB of the memory of GPU 0, above its limit of " in (
        greedy.describe().reason
    )
    # The file still lists the process: its memory is not back.
    eventually(lambda: card.row().left == 0)
    second = phalanx.submit(phalanx.Job("true", name="second", num_cpus=0, gpu_memory="20GiB"))
    eventually(lambda: "GPU" in str(phalanx.explain("second")))
    assert second.state == "Pending"
    card.uses()
    assert second.wait(PATIENCE_S) == "Completed"
    eventually(lambda: card.row().left == 1)


def test_a_task_that_uses_too_much_fails_for_lack_of_memory(card: Card, room: Any) -> None:
    @phalanx.remote(num_cpus=0, num_gpus=0.25, max_retries=0)
    def hold(path: str) -> None:
        Path(path + ".new").write_text(str(os.getpid()))
        Path(path + ".new").rename(path)
        signal.pause()

    ref = hold.remote(str(room.path / "task"))
    room.wait("task")
    card.uses((int((room.path / "task").read_text()), 30))
    with pytest.raises(OutOfMemoryError, match=r"it used 30.0 GiB .* above its limit of 20.0 GiB"):
        phalanx.get(ref, timeout=PATIENCE_S)


@pytest.mark.parametrize("kind", ["task", "actor"])
def test_under_rays_names_a_share_has_no_limit(
    card: Card, room: Any, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setenv("PHALANX_DIALECT", "ray")

    def hold(path: str) -> None:
        Path(path + ".new").write_text(f"{os.getpid()} {sorted(os.environ)}")
        Path(path + ".new").rename(path)
        signal.pause()

    class Holder:
        def hold(self, path: str) -> None:
            hold(path)

    path = str(room.path / kind)
    options = {"num_cpus": 0, "num_gpus": 0.25}
    if kind == "task":
        started: Any = phalanx.remote(**options)(hold).remote(path)
    else:
        started = phalanx.remote(**options)(Holder).remote()
        started.hold.remote(path)
    room.wait(kind)
    pid, _, variables = Path(path).read_text().partition(" ")
    assert "PHALANX_GPU_MEMORY_LIMIT" not in variables
    card.uses((int(pid), 30))
    (sharer,) = present(eventually(lambda: card.row().processes and card.row().sharers))
    assert sharer[1:] == (20 * GIB, 30 * GIB, None)


def test_sharers_are_shown_with_their_memory(card: Card, room: Any) -> None:
    one, pid = start(room, "one", gpu_memory="20GiB", gpu_memory_limit="40GiB")
    start(room, "two", num_gpus=0.25)
    card.uses((pid, 30))
    eventually(lambda: card.row().processes and len(card.row().sharers) == 2)
    eventually(lambda: card.row().left == 0.5)  # what is left comes by another message
    row = card.row()
    assert row.mode == "time"
    assert sorted(row.sharers) == [
        ("one worker-0", 20 * GIB, 30 * GIB, 40 * GIB),
        ("two worker-0", 20 * GIB, 0, 20 * GIB),
    ]
    assert one.state == "Running"


def test_more_than_a_card_has_is_refused_at_the_call(card: Card) -> None:
    with pytest.raises(GangInfeasibleError, match=r"90 GiB of gpu_memory .* largest GPU has 80"):
        phalanx.submit(phalanx.Job("true", gpu_memory="90GiB"))
    part = phalanx.Job("true", resources={"nvidia.com/mig-1g.10gb": 1})
    with pytest.raises(GangInfeasibleError, match=r"mig-1g\.10gb, and no GPU is split"):
        phalanx.submit(part)


def test_mps_has_a_daemon_whose_end_ends_its_sharers(card: Card, room: Any) -> None:
    job, pid = start(room, "first", gpu_memory="20GiB", gpu_share="mps", gpu_compute=0.3)
    told = dict(
        line.partition("=")[::2] for line in Path(f"/proc/{pid}/environ").read_text().split("\0")
    )
    place = Path(told["CUDA_MPS_PIPE_DIRECTORY"])
    assert (place / "shown").read_text().strip() == "GPU-a" == told["CUDA_VISIBLE_DEVICES"]
    assert told["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == f"0={20 * 1024}M"
    assert told["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "30"
    other, _ = start(room, "other", num_gpus=0.25, gpu_share="mps")
    daemon = int((place / "nvidia-cuda-mps-control.pid").read_text())
    os.kill(daemon, signal.SIGKILL)
    for ended in (job, other):
        assert ended.wait(PATIENCE_S) == "Failed"
        assert "the MPS daemon of GPU 0, which it used, has ended" in ended.describe().reason
    eventually(lambda: card.row().left == 1)
    third, _ = start(room, "third", num_gpus=0.25, gpu_share="mps")
    again = int((place / "nvidia-cuda-mps-control.pid").read_text())
    assert again != daemon
    third.cancel()
    third.wait(PATIENCE_S)
    eventually(lambda: not _is_alive(again), "the end of the daemon with its last sharer")


def _is_alive(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return status != "Z"
