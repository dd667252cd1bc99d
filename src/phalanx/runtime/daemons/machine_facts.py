"""Collects the facts that `phalanx.observe.machine_checks` judges. It starts nothing."""

from __future__ import annotations

import importlib.util
import os
import resource
import socket
import stat
import sys
import tempfile
from collections.abc import Iterator

import pynvml

from phalanx.observe.machine_checks import DaemonFacts, MachineFacts, PathFacts
from phalanx.runtime.containers.finding import find_tool
from phalanx.runtime.daemons.cluster_token import default_path
from phalanx.runtime.daemons.daemon_files import announced
from phalanx.runtime.os.command_groups import writable_group
from phalanx.runtime.os.detection import SHARED_MEMORY, detect_gpus
from phalanx.runtime.os.real_disks import LASTING, is_in_memory
from phalanx.runtime.os.session import runtime_root, started_at

EXTRAS = {
    "cluster": ("cryptography",),
    "dashboard": ("h11", "jinja2", "prometheus_client", "starlette", "uvicorn"),
}
"""The packages of the extras that most clusters use, by the names under which they are imported."""


def collect_facts(store: str, port: int) -> MachineFacts:
    """Return the facts of this machine. `store`: the usual file of the head's store. `port`: the
    head's usual port.
    """
    root, fault = "", ""
    try:
        root = runtime_root()
    except (OSError, ValueError) as error:
        fault = str(error)
    gpus, gpu_fault = _gpus()
    name = socket.gethostname()
    output = os.environ.get("TMPDIR") or (LASTING if os.path.isdir(LASTING) else "")
    return MachineFacts(
        python=sys.version_info[:2],
        missing={
            extra: [one for one in packages if importlib.util.find_spec(one) is None]
            for extra, packages in EXTRAS.items()
        },
        runtime=_path(root or tempfile.gettempdir()),
        runtime_fault=fault,
        output=_path(output or tempfile.gettempdir()),
        store=_path(store),
        token=_path(default_path()),
        shared_free_bytes=_free(str(SHARED_MEMORY)) or 0,
        open_files=resource.getrlimit(resource.RLIMIT_NOFILE),
        gpus=gpus,
        gpu_fault=gpu_fault,
        has_command_groups=writable_group() is not None,
        container_tool="" if (tool := find_tool()) is None else tool.path,
        hostname=name,
        host_addresses=_addresses(name),
        port_is_free=_is_free(port),
        daemons=list(_daemons(root)) if root else [],
    )


def _path(path: str) -> PathFacts:
    try:
        found = os.lstat(path)
    except OSError:
        return PathFacts(path=path)
    is_directory = stat.S_ISDIR(found.st_mode)
    return PathFacts(
        path=path,
        mode=stat.S_IMODE(found.st_mode),
        is_ours=found.st_uid == os.getuid(),
        is_link=stat.S_ISLNK(found.st_mode),
        free_bytes=_free(path) if is_directory else None,
        is_in_memory=is_directory and is_in_memory(path),
    )


def _free(path: str) -> int | None:
    try:
        found = os.statvfs(path)
    except OSError:
        return None
    return found.f_bavail * found.f_frsize


def _gpus() -> tuple[int, str]:
    """Return the number of GPUs, and the reason if an installed driver gave no list.

    A node that starts takes any error of the driver to mean "no GPUs"; this function returns the
    error.
    """
    try:
        pynvml.nvmlInit()
        pynvml.nvmlShutdown()
    except pynvml.NVMLError_LibraryNotFound:
        return 0, ""
    except pynvml.NVMLError as error:
        return 0, str(error)
    return len(detect_gpus()[0]), ""


def _addresses(name: str) -> list[str]:
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except OSError:
        return []
    return list(dict.fromkeys(str(one[4][0]) for one in found))


def _is_free(port: int) -> bool:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _daemons(root: str) -> Iterator[DaemonFacts]:
    for name in sorted(os.listdir(root)):
        one = announced(os.path.join(root, name))
        if one is not None:
            is_alive = started_at(one.pid) == one.started
            yield DaemonFacts(kind=one.kind, pid=one.pid, address=one.address, is_alive=is_alive)
