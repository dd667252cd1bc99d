"""Detects the CPUs, the memory and the GPUs of this machine that this process may use, and the
wiring of the GPUs.
"""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

if TYPE_CHECKING:
    from phalanx.scheduler.devices.topology import Topology

_LEVEL_WORDS = {0: "PSB", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
"""NVML's numbers for the nearest common ancestor of two devices, each with its word in `topo
-m`.
"""

SHARED_MEMORY = Path("/dev/shm")
MIN_STORE_BYTES = 80 << 20
STORE_PART = 0.3
"""The fraction of free memory that an object store takes by default."""

_MAX_NVLINKS = 18
_NVLINK_TO_SWITCH = 2
_GPU_MODEL = re.compile(r"\w+\s+([A-Za-z0-9]+)")


@dataclass(frozen=True, kw_only=True)
class DetectedGpu:
    """A GPU, or a part of a split GPU (MIG): its number on the machine, and its model as in
    `accelerator_type` (`A100`).
    """

    number: int
    model: str
    memory_bytes: int = 0
    product: str = ""
    """The full product name of the GPU, such as `NVIDIA A100-SXM4-80GB`."""


@dataclass(frozen=True, kw_only=True)
class Detected:
    """The detected amounts. `topology` is in the order of `gpus`; None if it is unknown, or if
    there are fewer than two GPUs.
    """

    cpus: int
    memory_bytes: int
    gpus: tuple[DetectedGpu, ...] = ()
    topology: Topology | None = None


def detect() -> Detected:
    """Detect the amounts that this process may use, within its affinity, cgroups and visible
    devices.
    """
    gpus, topology = detect_gpus()
    return Detected(cpus=cpu_count(), memory_bytes=memory_bytes(), gpus=gpus, topology=topology)


def cpu_count(root: Path = Path("/")) -> int:
    """Return the number of CPUs that the process's affinity and the tightest cgroup quota allow, at
    least one.
    """
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    counted = allowed or psutil.cpu_count() or 1
    for folder in cgroup_folders(root, "cpu"):
        quota = _cpu_quota(folder)
        if quota is not None:
            counted = min(counted, max(1, int(quota)))
    return counted


def memory_bytes(root: Path = Path("/")) -> int:
    """Return the bytes of the machine's memory, or of the tightest cgroup limit if that is less."""
    limit: int = psutil.virtual_memory().total
    for folder in cgroup_folders(root, "memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            text = read_text(folder / name)
            if text is not None and text.isdigit():
                limit = min(limit, int(text))
    return limit


def shared_memory_bytes() -> int:
    """Return the default size of an object store in bytes: 30 % of free memory, at most 95 % of the
    free shared memory, and at least MIN_STORE_BYTES.
    """
    wanted = int(STORE_PART * min(psutil.virtual_memory().available, memory_bytes()))
    if SHARED_MEMORY.is_dir():
        stats = os.statvfs(SHARED_MEMORY)
        wanted = min(wanted, int(0.95 * stats.f_bavail * stats.f_frsize))
    return max(wanted, MIN_STORE_BYTES)


def detect_gpus(
    nvml: Any = None, visible: str | None = None, root: Path = Path("/")
) -> tuple[tuple[DetectedGpu, ...], Topology | None]:
    """Return the GPUs that this process may use, with their wiring; none without NVIDIA's driver.

    `nvml` is the module pynvml, or an object with the same functions. `visible` replaces
    CUDA_VISIBLE_DEVICES, whose order is kept; as in CUDA, the list ends at the first entry that
    names no device.
    """
    if nvml is None:
        nvml = importlib.import_module("pynvml")
    if visible is None:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return (), None
    try:
        parts = visible_parts(nvml, visible)
        if parts:  # the driver reports no wiring between parts
            return tuple(_gpu(nvml, _whole(nvml, part), part) for _, part in parts), None
        handles = [nvml.nvmlDeviceGetHandleByIndex(at) for at in range(nvml.nvmlDeviceGetCount())]
        names = [_text(nvml.nvmlDeviceGetUUID(handle)) for handle in handles]
        numbers = visible_numbers(names, visible)
        gpus = tuple(_gpu(nvml, number, handles[number]) for number in numbers)
        return gpus, _topology(nvml, [handles[number] for number in numbers], root)
    finally:
        nvml.nvmlShutdown()


def _gpu(nvml: Any, number: int, handle: Any) -> DetectedGpu:
    product = _text(nvml.nvmlDeviceGetName(handle))
    return DetectedGpu(
        number=number,
        model=gpu_model(product),
        memory_bytes=int(nvml.nvmlDeviceGetMemoryInfo(handle).total),
        product=product,
    )


def _whole(nvml: Any, part: Any) -> int:
    """Return the machine's number of the GPU of which `part` is a part."""
    return int(nvml.nvmlDeviceGetIndex(nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(part)))


def visible_parts(nvml: Any, visible: str | None) -> list[tuple[str, Any]]:
    """Return the UUIDs and handles of the parts of split GPUs (MIG) that `visible`
    (CUDA_VISIBLE_DEVICES) lists, in its order.

    As in CUDA, the list ends at the first entry that names no part. Raises ValueError for a part
    that is listed twice.
    """
    found: dict[str, Any] = {}
    for entry in (part.strip() for part in (visible or "").split(",")):
        if not entry.startswith("MIG-"):
            break
        try:
            handle = nvml.nvmlDeviceGetHandleByUUID(entry)
        except nvml.NVMLError:
            break
        if entry in found:
            raise ValueError(f"CUDA_VISIBLE_DEVICES lists {entry} twice: {visible}")
        found[entry] = handle
    return list(found.items())


def visible_numbers(uuids: Sequence[str], visible: str | None) -> list[int]:
    """Return the machine's device numbers that `visible` (CUDA_VISIBLE_DEVICES) lists, in its
    order.

    None lists all devices. An entry is a number, a UUID, or the beginning of a UUID. Raises
    ValueError for a device that is listed twice.
    """
    if visible is None:
        return list(range(len(uuids)))
    numbers: list[int] = []
    for entry in (part.strip() for part in visible.split(",")):
        matching = [at for at, uuid in enumerate(uuids) if entry and uuid.startswith(entry)]
        if entry.isdigit() and int(entry) < len(uuids):
            matching = [int(entry)]
        if len(matching) != 1:
            break
        if matching[0] in numbers:
            raise ValueError(f"CUDA_VISIBLE_DEVICES lists {entry} twice: {visible}")
        numbers.extend(matching)
    return numbers


def gpu_model(name: str) -> str:
    """Return the model in a product name: `A100` for `NVIDIA A100-SXM4-40GB`."""
    found = _GPU_MODEL.match(name)
    return found[1] if found else name.strip()


def mig_profile(name: str) -> str:
    """Return the profile in the product name of a part of a split GPU; "" for a whole GPU.

    The profile of `NVIDIA H100 80GB HBM3 MIG 1g.10gb` is `1g.10gb`.
    """
    return name.rpartition(" MIG ")[2] if " MIG " in name else ""


def _topology(nvml: Any, handles: Sequence[Any], root: Path) -> Topology | None:
    if len(handles) < 2:
        return None  # with only one device there is no choice
    buses = [_text(nvml.nvmlDeviceGetPciInfo(handle).busId).lower() for handle in handles]
    links = [_nvlinks(nvml, handle) for handle in handles]
    count = len(handles)
    levels = [["X"] * count for _ in range(count)]
    rows = [["X"] * count for _ in range(count)]
    for i, j in combinations(range(count), 2):
        try:
            level = nvml.nvmlDeviceGetTopologyCommonAncestor(handles[i], handles[j])
        except nvml.NVMLError:
            # Some virtual machines report such a wiring, which is wrong. No wiring is better.
            return None
        levels[i][j] = levels[j][i] = _LEVEL_WORDS.get(int(level), "SYS")
        direct = links[i].count(buses[j])
        switched = min(links[i].count("switch"), links[j].count("switch"))
        lanes = direct or switched
        rows[i][j] = rows[j][i] = f"NV{lanes}" if lanes else levels[i][j]
    # This imports NumPy, which is needed only if there are GPUs.
    from phalanx.scheduler.devices.topology import from_rows

    return from_rows(rows, [_numa_node(bus, root) for bus in buses], levels)


def _nvlinks(nvml: Any, handle: Any) -> list[str]:
    """Return the other end of each active NVLink: another device's bus id, or `switch`."""
    ends = []
    for link in range(_MAX_NVLINKS):
        try:
            if not nvml.nvmlDeviceGetNvLinkState(handle, link):
                continue
            kind = nvml.nvmlDeviceGetNvLinkRemoteDeviceType(handle, link)
            if kind == _NVLINK_TO_SWITCH:
                ends.append("switch")
            else:
                remote = nvml.nvmlDeviceGetNvLinkRemotePciInfo(handle, link)
                ends.append(_text(remote.busId).lower())
        except nvml.NVMLError:
            continue  # this device has fewer links, or none
    return ends


def _numa_node(bus: str, root: Path) -> int:
    domain, _, rest = bus.partition(":")
    place = root / "sys/bus/pci/devices" / f"{domain[-4:]}:{rest}" / "numa_node"
    text = read_text(place)
    return int(text) if text is not None and text.isdigit() else -1


def cgroup_folders(root: Path, controller: str) -> list[Path]:
    """Return the directories of this process's cgroup and of its parents, for either version of
    cgroups.
    """
    folders = []
    for line in (read_text(root / "proc/self/cgroup") or "").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        base = root / "sys/fs/cgroup" / (controller if controllers else "")
        parts = [part for part in path.split("/") if part]
        folders += [base.joinpath(*parts[:depth]) for depth in range(len(parts), -1, -1)]
    return folders


def _cpu_quota(folder: Path) -> float | None:
    text = read_text(folder / "cpu.max")
    quota, period = text.split() if text else (None, None)
    if text is None:
        quota, period = (
            read_text(folder / "cpu.cfs_quota_us"),
            read_text(folder / "cpu.cfs_period_us"),
        )
    if quota is None or period is None or not quota.isdigit() or int(period) <= 0:
        return None  # "max" and -1 mean that there is no limit
    return int(quota) / int(period)


def read_text(path: Path) -> str | None:
    """Return the text of a file; None if the file cannot be read."""
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return None


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
