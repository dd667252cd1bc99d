"""The node that a driver starts for itself, and that ends together with the driver."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time

import msgspec

from phalanx.model.options import ACCELERATORS
from phalanx.model.system_settings import SystemSettings
from phalanx.runtime.os import session as sessions
from phalanx.runtime.os.environment import child_environment, existing_directory
from phalanx.scheduler.placement.labels import NODE_LABEL
from phalanx.scheduler.placement.memory_pressure import MEMORY_LIMIT
from phalanx.scheduler.placement.placement_policy import PlacementPolicy

END_TIMEOUT_S = 10.0
CLEANED_TIMEOUT_S = 5.0
_PRELOAD = ("numpy",)


class StartOptions(msgspec.Struct, kw_only=True):
    """The options with which a new node is started."""

    resources: dict[str, float]
    labels: dict[str, str]
    object_store_bytes: int
    unit_resources: tuple[str, ...] = ACCELERATORS
    prestart: int = 0
    temp_dir: str | None = None
    memory_limit: float = MEMORY_LIMIT
    topology: str = ""
    placement: PlacementPolicy = PlacementPolicy()
    settings: SystemSettings = SystemSettings()
    preload: tuple[str, ...] = ()
    variables: dict[str, str] = {}
    """Variables that the node's process gets in addition to those of this process. Modules read
    such settings when they are imported.
    """


class OwnNode:
    """The node's process, with its session and the socket to it."""

    def __init__(self, options: StartOptions) -> None:
        self.session = sessions.create(options.temp_dir)
        self._directory = existing_directory()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        node_id = os.urandom(28).hex()
        config = {
            "session": msgspec.to_builtins(self.session),
            "resources": options.resources,
            "labels": {NODE_LABEL: node_id, **options.labels},
            "object_store_bytes": options.object_store_bytes,
            "node_id": node_id,
            "preload": [*(m for m in _PRELOAD if m in sys.modules), *options.preload],
            "unit_resources": options.unit_resources,
            "prestart": options.prestart,
            "memory_limit": options.memory_limit,
            "topology": options.topology,
            "settings": msgspec.to_builtins(options.settings),
            "spilling": {"placement": msgspec.to_builtins(options.placement)},
        }
        self._process = _spawn(theirs.fileno(), options.variables)
        theirs.close()
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(config).encode() + b"\n")
        self._process.stdin.close()
        self.socket = ours

    def kill(self) -> None:
        """Kill a node that cannot be used, and remove all its files."""
        self._process.kill()
        self._process.wait()
        sessions.remove(self.session)

    def wait_gone(self) -> None:
        """Wait until the node has ended and all its files are gone.

        The node must have been asked to end, or its driver must have ended. If the program's
        current directory is in the session, the program returns to the directory in which it began.
        """
        if _is_below(self.session.directory):
            # That directory may have been removed, too.
            with contextlib.suppress(OSError):
                os.chdir(self._directory)
        try:
            self._process.wait(timeout=END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        deadline = time.monotonic() + CLEANED_TIMEOUT_S
        while os.path.exists(self.session.directory) and time.monotonic() < deadline:
            time.sleep(0.005)
        sessions.remove(self.session)

    def leave_behind(self) -> None:
        """Forget the node in a forked child. The node is no child of this process, so there is
        nothing to wait for.
        """
        self._process.returncode = 0


def _is_below(directory: str) -> bool:
    """Whether this program's current directory is below the given one. The current directory may
    have been removed by now.
    """
    here = os.readlink("/proc/self/cwd")
    return here.startswith(os.path.join(os.path.realpath(directory), ""))


def _spawn(driver_fd: int, variables: dict[str, str]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "phalanx.runtime.node.process", str(driver_fd)]
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        pass_fds=(driver_fd,),
        start_new_session=True,
        env=child_environment() | variables,
        cwd=existing_directory(),
    )
