"""The detection of a machine's devices, with a made-up driver and file system."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import SimpleNamespace

import pytest

from phalanx.runtime.os.detection import (
    Detected,
    DetectedGpu,
    cpu_count,
    detect,
    detect_gpus,
    gpu_model,
    memory_bytes,
    visible_numbers,
)
from phalanx.runtime.os.node_amounts import node_amounts


class FakeDriver:
    """A driver whose device i has NVLinks to the devices in `links[i]`: numbers, or "switch"."""

    class NVMLError(Exception):
        pass

    def __init__(self, links: list[list[int | str]], *, broken: bool = False) -> None:
        self._links = links
        self._broken = broken
        self.is_open = False

    def nvmlInit(self) -> None:  # the driver's own names
        if self._broken:
            raise self.NVMLError("no driver")
        self.is_open = True

    def nvmlShutdown(self) -> None:
        self.is_open = False

    def nvmlDeviceGetCount(self) -> int:
        return len(self._links)

    def nvmlDeviceGetHandleByIndex(self, at: int) -> int:
        return at

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> int:
        """Return the handle of a part of a GPU, which has the UUID MIG-GPU-PART. Handles of parts
        are larger than the numbers of all GPUs.
        """
        at, _, part = uuid.removeprefix("MIG-").partition("-")
        if not uuid.startswith("MIG-") or int(at) >= len(self._links):
            raise self.NVMLError("not found")
        return 100 * (int(part) + 1) + int(at)

    def nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self, at: int) -> int:
        return at % 100

    def nvmlDeviceGetIndex(self, at: int) -> int:
        return at

    def nvmlDeviceGetUUID(self, at: int) -> bytes:
        return f"GPU-{at}aaa".encode()

    def nvmlDeviceGetName(self, at: int) -> str:
        return "NVIDIA H100 80GB HBM3" if at < 100 else "NVIDIA H100 80GB HBM3 MIG 1g.10gb"

    def nvmlDeviceGetMemoryInfo(self, at: int) -> SimpleNamespace:
        return SimpleNamespace(total=(80 if at < 100 else 10) << 30)

    def nvmlDeviceGetPciInfo(self, at: int) -> SimpleNamespace:
        return SimpleNamespace(busId=f"00000000:{at:02X}:00.0")

    def nvmlDeviceGetTopologyCommonAncestor(self, i: int, j: int) -> int:
        return 10 if i // 2 == j // 2 else 50

    def nvmlDeviceGetNvLinkState(self, at: int, link: int) -> int:
        if link >= len(self._links[at]):
            raise self.NVMLError("no such link")
        return 1

    def nvmlDeviceGetNvLinkRemoteDeviceType(self, at: int, link: int) -> int:
        return 2 if self._links[at][link] == "switch" else 0

    def nvmlDeviceGetNvLinkRemotePciInfo(self, at: int, link: int) -> SimpleNamespace:
        return self.nvmlDeviceGetPciInfo(int(self._links[at][link]))


@pytest.fixture(autouse=True)
def all_devices_visible(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def test_no_driver_is_no_gpu(tmp_path: Path) -> None:
    assert detect_gpus(FakeDriver([], broken=True), root=tmp_path) == ((), None)


def test_bridged_pairs(tmp_path: Path) -> None:
    driver = FakeDriver([[1, 1], [0, 0], [], []])
    for at in range(4):
        place = tmp_path / f"sys/bus/pci/devices/0000:{at:02x}:00.0"
        place.mkdir(parents=True)
        (place / "numa_node").write_text(f"{at // 2}\n")
    gpus, wiring = detect_gpus(driver, visible=None, root=tmp_path)
    assert wiring is not None
    assert [gpu.model for gpu in gpus] == ["H100"] * 4
    assert all(gpu_model(gpu.product) == gpu.model != gpu.product for gpu in gpus)
    assert wiring.numa == (0, 0, 1, 1)
    assert (wiring.weights[0][1], wiring.weights[2][3], wiring.weights[0][2]) == (250, 50, 10)
    assert not driver.is_open


def test_one_device_has_no_wiring(tmp_path: Path) -> None:
    gpus, wiring = detect_gpus(FakeDriver([[]]), root=tmp_path)
    assert (len(gpus), wiring) == (1, None)


def test_links_to_a_switch_reach_everyone(tmp_path: Path) -> None:
    _, wiring = detect_gpus(FakeDriver([["switch"] * 18] * 3), root=tmp_path)
    assert wiring is not None
    assert (wiring.weights[0][2], wiring.weights[0][1]) == (1810, 1850)


def test_only_visible_devices_count_and_keep_their_numbers(tmp_path: Path) -> None:
    gpus, wiring = detect_gpus(FakeDriver([[]] * 4), visible="3,1", root=tmp_path)
    assert [gpu.number for gpu in gpus] == [3, 1]
    assert wiring is not None and wiring.device_count == 2
    assert detect_gpus(FakeDriver([[]] * 4), visible="", root=tmp_path) == ((), None)


@pytest.mark.parametrize(
    ("visible", "wholes"),
    [
        ("MIG-1-0", [1]),
        ("MIG-1-0,MIG-1-1, MIG-0-2", [1, 1, 0]),
        ("MIG-1-0,MIG-7-0,MIG-1-1", [1]),  # like CUDA, nothing after what names no device
        ("MIG-7-0", []),
        ("0,MIG-1-0", [0]),
        ("MIG-1-0,0", [1]),
    ],
)
def test_parts_of_split_gpus_count(tmp_path: Path, visible: str, wholes: list[int]) -> None:
    gpus, wiring = detect_gpus(FakeDriver([[]] * 2), visible=visible, root=tmp_path)
    assert [gpu.number for gpu in gpus] == wholes
    assert wiring is None
    if visible.startswith("MIG"):
        assert {gpu.model for gpu in gpus} <= {"H100"}
        assert {gpu.memory_bytes for gpu in gpus} <= {10 << 30}


def test_a_part_listed_twice(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="lists MIG-0-1 twice"):
        detect_gpus(FakeDriver([[]]), visible="MIG-0-1,MIG-0-1", root=tmp_path)


def test_a_node_that_is_shown_parts_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """In an earlier version such a node had no GPU unless `num_gpus` was given."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-0-0,MIG-0-1")
    monkeypatch.setattr(importlib, "import_module", lambda name: FakeDriver([[]]))
    amounts = node_amounts(num_cpus=1)
    assert amounts.resources["GPU"] == 2
    assert amounts.resources["accelerator_type:H100"] == 1
    assert amounts.labels["nvidia.com/gpu.product"] == "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb"


@pytest.mark.parametrize(
    ("visible", "numbers"),
    [
        (None, [0, 1, 2]),
        ("", []),
        ("2,0", [2, 0]),
        ("GPU-b", [1]),
        ("0,-1,1", [0]),  # like CUDA, nothing after what names no device
        ("7", []),
        ("GPU", []),  # names all of them, so none
    ],
)
def test_visible_numbers(visible: str | None, numbers: list[int]) -> None:
    assert visible_numbers(["GPU-a", "GPU-b", "GPU-c"], visible) == numbers


def test_a_device_listed_twice() -> None:
    with pytest.raises(ValueError, match="lists 1 twice"):
        visible_numbers(["GPU-a", "GPU-b"], "1,1")


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("NVIDIA A100-SXM4-40GB", "A100"),
        ("Tesla V100-SXM2-16GB", "V100"),
        ("NVIDIA H200", "H200"),
        ("Odd", "Odd"),
    ],
)
def test_models(name: str, model: str) -> None:
    assert gpu_model(name) == model


def cgroup(root: Path, lines: str, files: dict[str, str]) -> Path:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(lines)
    for name, text in files.items():
        place = root / "sys/fs/cgroup" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    return root


def test_the_tightest_quota_counts(tmp_path: Path) -> None:
    root = cgroup(
        tmp_path,
        "0::/a/b\n",
        {"a/b/cpu.max": "max 100000", "a/cpu.max": "100000 100000", "a/memory.max": "1048576"},
    )
    assert cpu_count(root) == 1
    assert memory_bytes(root) == 1 << 20


def test_less_than_one_cpu_is_still_one(tmp_path: Path) -> None:
    assert cpu_count(cgroup(tmp_path, "0::/\n", {"cpu.max": "50000 100000"})) == 1


def test_the_older_kind_of_cgroup(tmp_path: Path) -> None:
    root = cgroup(
        tmp_path,
        "4:memory:/m\n1:cpu,cpuacct:/c\n",
        {
            "cpu/c/cpu.cfs_quota_us": "100000",
            "cpu/c/cpu.cfs_period_us": "100000",
            "memory/m/memory.limit_in_bytes": "4096",
        },
    )
    assert (cpu_count(root), memory_bytes(root)) == (1, 4096)


def test_no_limits_leave_the_machine(tmp_path: Path) -> None:
    unlimited = cgroup(tmp_path, "0::/\n", {"cpu.max": "max 100000", "memory.max": "max"})
    assert cpu_count(unlimited) >= 1
    assert memory_bytes(unlimited) > 1 << 20


def test_this_very_machine() -> None:
    found = detect()
    assert found.cpus >= 1
    assert (found.topology is None) or found.topology.device_count == len(found.gpus)


def test_a_node_is_labelled_with_the_model_of_its_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = DetectedGpu(number=0, model="H100", product="NVIDIA H100 80GB HBM3")
    found = Detected(cpus=1, memory_bytes=1 << 30, gpus=(gpu,))
    monkeypatch.setattr("phalanx.runtime.os.detection.detect", lambda: found)
    labels = node_amounts().labels
    assert labels["ray.io/accelerator-type"] == "H100"
    assert labels["nvidia.com/gpu.product"] == "NVIDIA-H100-80GB-HBM3"
    assert "ray.io/accelerator-type" not in node_amounts(num_gpus=0).labels


def test_devices_of_one_type_only_say_which_accelerators_they_are() -> None:
    with_cores = node_amounts(num_gpus=0, resources={"neuron_cores": 2}).resources
    assert with_cores["accelerator_type:aws-neuron-core"] == 1.0
    assert not [name for name in node_amounts(num_gpus=0).resources if "neuron" in name]
