"""GPUs of a node on real daemons, read from a file: one becomes unhealthy, is accepted by an
operator, is cordoned, and hangs.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.polling import eventually

SLEEP = ("sleep", "6173.5")
WELL: dict[str, Any] = {"model": "H100", "busy": 0.5, "memory_used": 1, "memory_total": 2}


class Devices:
    """The file that a node reads its two GPUs from."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.write({}, {})

    def write(self, *devices: dict[str, Any], **more: Any) -> None:
        whole = {"devices": [WELL | one for one in devices], **more}
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps(whole))
        os.replace(new, self.path)


@pytest.fixture
def devices(machine: Any, tmp_path: Path) -> Devices:
    found = Devices(tmp_path / "devices.json")
    check = f"cat {tmp_path}/said 2>/dev/null && exit 2; exit 0"
    given = ("--num-gpus", "2", "--devices", str(found.path), "--check-every", "1s")
    machine.start_head(*given, "--check", f"cables={check}")
    return found


def gpus(machine: Any) -> list[Any]:
    return list(json.loads(machine.done("top", "--json"))["devices"])


def node(machine: Any) -> Any:
    (row,) = machine.nodes().values()
    return row


def test_from_well_to_bad_and_back(machine: Any, devices: Devices, tmp_path: Path) -> None:
    eventually(lambda: [one["model"] for one in gpus(machine)] == ["H100", "H100"])
    name = node(machine)["node_id"][:10]

    # A job's process on a device is shown with its job, and the device with the job's member.
    machine.done("run", "-d", "--gpus", "1", "--name", "train", "--", *SLEEP)
    pid = eventually(lambda: _pid_of(" ".join(SLEEP)))
    devices.write({"processes": [[pid, 2 << 30], [1, None]]}, {})
    shown = eventually(lambda: [one for one in gpus(machine) if one["processes"]])
    assert shown[0]["processes"] == [[pid, 2 << 30, "train worker-0"], [1, None, ""]]
    assert shown[0]["holders"] == ["train worker-0"]
    listed = machine.done("devices")
    assert f"{pid} train worker-0, 2.0 GiB; 1 of no job here" in listed
    assert "1 on GPUs of no job here" in machine.done("top", "--once")
    assert json.loads(machine.done("devices", name, "--json"))["devices"] == gpus(machine)

    # The other goes bad: it alone leaves the pool.
    devices.write({}, {"xids": [79]})
    eventually(lambda: node(machine)["total"].get("GPU") == 1.0)
    assert "gpu1 (it had the error Xid 79, needs: reboot)" in node(machine)["reason"]
    assert node(machine)["state"] == "DRAINING"
    assert "device-bad" in machine.done("events", "--kind", "device")

    # Somebody says that it is well, and closes the first one.
    machine.done("uncordon", f"{name}/gpu1")
    eventually(lambda: node(machine)["total"].get("GPU") == 2.0)
    eventually(lambda: node(machine)["state"] == "ALIVE")
    machine.done("cordon", f"{name}/gpu0", "--reason", "a loose \x1b[31mcable")
    eventually(lambda: node(machine)["total"].get("GPU") == 1.0)
    shown = machine.done("nodes")
    assert "a loose \\x1b[31mcable" in shown
    refused = machine.phalanx("cordon", f"{name}/gpu9")
    assert refused.returncode == 2
    assert "has no gpu9: it has gpu0 to gpu1" in refused.stderr

    # A check says that something is wrong.
    machine.done("cancel", "train")
    (tmp_path / "said").write_text("a link is down\n")
    eventually(lambda: "check cables is bad: a link is down" in node(machine)["reason"])
    (tmp_path / "said").unlink()
    eventually(lambda: node(machine)["state"] == "ALIVE")


def _pid_of(command: str) -> int:
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b" ".join(words).decode().strip() == command:
            return int(pid)
    return 0
