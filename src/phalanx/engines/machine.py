"""What this machine has: CPUs this process may use, GPUs, memory."""

from __future__ import annotations

import os

import msgspec

SHM = "/dev/shm"


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """Amounts that a node on this machine starts with by default."""

    cpus: float
    gpus: float
    memory_bytes: int
    store_bytes: int
    accelerator: str


def describe_machine() -> Machine:
    """Look at the machine. CPUs and memory respect affinity and the cgroup's limits."""
    import psutil

    memory = psutil.virtual_memory()
    limit = _cgroup_memory()
    total = memory.total if limit is None else min(limit, memory.total)
    free = min(memory.available, total)
    store = int(0.3 * free)
    if os.path.isdir(SHM):
        stats = os.statvfs(SHM)
        store = min(store, int(0.95 * stats.f_bavail * stats.f_frsize))
    gpus, accelerator = _gpus()
    return Machine(
        cpus=float(_cpus()),
        gpus=float(gpus),
        memory_bytes=max(int(0.7 * free), 1),
        store_bytes=max(store, 80 << 20),
        accelerator=accelerator,
    )


def _cpus() -> int:
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    quota = _read("/sys/fs/cgroup/cpu.max").split()
    if len(quota) == 2 and quota[0] != "max":
        count = min(count or 1, max(1, int(quota[0]) // int(quota[1])))
    return count or 1


def _cgroup_memory() -> int | None:
    text = _read("/sys/fs/cgroup/memory.max")
    return int(text) if text.isdigit() else None


def _read(path: str) -> str:
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return ""


def _gpus() -> tuple[int, str]:
    """(how many GPUs this process may use, their model's short name)."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        count = len([v for v in visible.split(",") if v.strip() and v.strip() != "-1"])
        if not count:
            return 0, ""
    if not os.path.exists("/dev/nvidiactl"):
        return (0, "") if visible is None else (len(visible.split(",")), "")
    try:
        import pynvml

        pynvml.nvmlInit()
        try:
            found = pynvml.nvmlDeviceGetCount()
            name = pynvml.nvmlDeviceGetName(pynvml.nvmlDeviceGetHandleByIndex(0)) if found else ""
        finally:
            pynvml.nvmlShutdown()
    except Exception:
        return 0, ""
    name = name.decode() if isinstance(name, bytes) else name
    words = [w for w in name.split() if w not in ("NVIDIA", "Tesla", "GeForce", "RTX")]
    accelerator = words[0].split("-")[0] if words else ""
    return (found if visible is None else min(found, len(visible.split(",")))), accelerator
