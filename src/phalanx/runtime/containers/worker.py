"""Runs a worker in a container: the process that the fork server has forked starts the tool for
containers, and the Python of the image becomes the worker.

The forked process stays, so the node watches it, signals it and learns how it ends, as it does
with every worker. It passes signals on to the worker, and ends with the worker's exit code. If this
process is killed, its end of a pipe closes, and the kernel kills the worker (`in_image`).
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import socket
import struct
import sys
import time
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import NoReturn

import msgspec

from phalanx.model.environments import Environment
from phalanx.runtime.containers import in_image
from phalanx.runtime.containers.finding import Tool, find_tool
from phalanx.runtime.containers.leftovers import name_of, noted, remove, remove_leftovers
from phalanx.runtime.containers.requests import ContainerRequest, Gpus, User
from phalanx.runtime.containers.run import limits_here, names_of
from phalanx.runtime.containers.tools import DOCKER, PODMAN, Line, MountError, line_for
from phalanx.runtime.environments.images import NO_TOOL, image_in
from phalanx.runtime.environments.python_path import own_paths
from phalanx.runtime.os.process_tree import end_with_parent
from phalanx.runtime.os.session import SHM, Session

PACKAGES = "/.phalanx"
"""The directory in the container below which the node's packages are."""
_NO_DOCKER = (
    "docker runs no workers: its daemon starts containers, and the node could not end the worker. "
    "Tasks and actors run in images by podman, apptainer or enroot"
)
_CDI = ("/etc/cdi", "/var/run/cdi")
"""The directories in which podman looks for the descriptions of devices."""
_TAIL_LINES = 20
_SETTLE_S = 1.0
"""The longest time, in seconds, for which this process waits after the worker's end until the tool
has removed the container.
"""
_FIRST_FREE = 64
_CREDENTIALS = struct.Struct("3i")
"""A pid, a uid and a gid (unix(7): SCM_CREDENTIALS)."""
_PASSED_ON = (
    *(signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT),
    *(signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT),
)


def packages_of(path: Sequence[str], own: str) -> tuple[tuple[str, str], ...]:
    """Return the directories of the node's packages, as (path, path in the container).

    `path`: the directories in which the node's Python looks for modules. `own`: the directory that
    has Phalanx. It comes first in the result.
    """
    found = [own, *(one for one in own_paths(path) if one != own)]
    return tuple((one, f"{PACKAGES}/{number}") for number, one in enumerate(found))


def request_for(
    environment: Environment, place: str, name: str, mounts: Sequence[str], directory: str
) -> ContainerRequest:
    """Return the request for a worker in a container.

    `mounts`: directories that the worker needs. `directory`: the driver's working directory.
    """
    program = os.path.abspath(in_image.__file__)
    own = program.removesuffix(f"/{in_image.__name__.replace('.', '/')}.py")
    packages = packages_of(sys.path, own)
    given = json.loads(os.environ.get("PHALANX_RUNTIME_ENV", "{}")).get("env_vars") or {}
    return ContainerRequest(
        image=image_in(environment, place),
        argv=("python3", f"{packages[0][1]}{program.removeprefix(own)}"),
        name=name,
        user=User(os.getuid(), os.getgid(), tuple(os.getgroups())),
        place=place,
        directory=directory if os.path.isdir(directory) and directory != "/" else "",
        mounts=tuple(one for one in mounts if os.path.isdir(one)),
        packages=packages,
        variables=names_of(tuple(given), os.environ),
        gpus=Gpus(("all",) if _has_nvidia() else (), has_amd=os.path.exists("/dev/kfd")),
        limits=limits_here(),
        options=environment.options,
        passed=in_image.PASSED,
    )


def _has_nvidia() -> bool:
    """Whether a container can have NVIDIA's GPUs. With podman, this needs a description of them."""
    tool = find_tool()
    needs = tool is not None and tool.name == PODMAN
    return os.path.exists("/dev/nvidiactl") and (not needs or any(map(os.path.isdir, _CDI)))


def run_worker(
    environment: Environment,
    place: str,
    worker: bytes,
    session: Session,
    devices: Mapping[str, str],
    mounts: Sequence[str],
    directory: str,
) -> str:
    """Run a worker in a container, and end this process as the worker ends.

    Returns only if no worker could be started, with the reason. `place`: the directory of the
    prepared image. `mounts` and `directory`: as for `request_for`.
    """
    tool = find_tool()
    if tool is None or tool.name == DOCKER:
        return f"{NO_TOOL.format(environment.named) if tool is None else _NO_DOCKER}."
    name = name_of(os.getpid())
    of_session = (session.directory, session.spill, session.disk)
    shared = () if session.shared.startswith(f"{SHM}/") else (session.shared,)
    request = request_for(environment, place, name, (*of_session, *shared, *mounts), directory)
    about = in_image.About(
        python=f"{sys.version_info.major}.{sys.version_info.minor}",
        packages=[there for _, there in request.packages],
        worker=worker.hex(),
        session=msgspec.json.encode(session).decode(),
        devices=dict(devices),
        forked_as=os.getpid(),
    )
    request = request._replace(argv=(*request.argv, json.dumps(about)))
    try:
        line = line_for(tool.name, tool.path, request, os.environ)
    except MountError as error:
        return f"The image {environment.named} cannot be used: {error}."
    remove_leftovers()
    with noted(name, tool.path):
        started = _Started(tool, line)
        failure = started.failure()
        code = 0 if failure else started.wait()
        if started.is_killed:
            remove(name, tool.path)
    if not failure:
        _end_as(code)
    return f"The image {environment.named} could not run a worker:\n{failure}"


class _Started:
    """A started tool, its container, and the worker in the container."""

    def __init__(self, tool: Tool, line: Line) -> None:
        lives, self._lifeline = os.pipe()
        self._begun, begins = socket.socketpair()
        self._begun.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._said = os.memfd_create("said")
        """The file with the output of the tool, and of the worker before it has begun."""
        self.is_killed = False
        """Whether the tool was killed, so that it has not removed its container."""
        me = os.getpid()
        self._pid = os.fork()
        if self._pid == 0:
            end_with_parent(me)
            _become(tool, line, self._said, (lives, begins.fileno(), 1, 2))
        os.close(lives)
        begins.close()
        self._tool = os.pidfd_open(self._pid)

    def failure(self) -> str:
        """Wait until the worker has begun, and return "". If the tool ends before that, return the
        last lines that it has printed.
        """
        waiting = select.poll()
        waiting.register(self._begun, select.POLLIN)
        waiting.register(self._tool, select.POLLIN)
        if self._begun.fileno() in {fd for fd, _ in waiting.poll()} and self._greeted():
            return ""
        os.close(self._lifeline)
        _reap(self._pid)
        _reap_all()
        with open(self._said, "rb") as file:
            file.seek(0)
            lines = file.read().decode("utf-8", "replace").splitlines()
        return "\n".join(lines[-_TAIL_LINES:]) or "the tool has said nothing"

    def _greeted(self) -> bool:
        """Read the worker's greeting, to which the kernel adds the worker's pid on this machine.
        The worker gets that pid as the answer. Returns False if the worker has ended.
        """
        room = socket.CMSG_SPACE(_CREDENTIALS.size)
        greeting, added, _, _ = self._begun.recvmsg(1, room)
        if not greeting:
            return False
        pid, _, _ = _CREDENTIALS.unpack(added[0][2])
        self._pass_signals_on(pid)
        self._begun.sendall(pid.to_bytes(in_image.PID_BYTES, "little"))
        return True

    def _pass_signals_on(self, worker: int) -> None:
        def passed_on(number: int, frame: FrameType | None) -> None:
            os.kill(worker, number)

        for number in _PASSED_ON:
            signal.signal(number, passed_on)

    def wait(self) -> int:
        """Wait for the end of the worker and of its container. Returns the exit code of the tool,
        which is that of the worker.
        """
        code = _reap(self._pid)
        self.is_killed = code < 0
        os.close(self._lifeline)
        _reap_all()
        return code


def _become(tool: Tool, line: Line, said: int, passed: Sequence[int]) -> NoReturn:
    """Replace this process by the tool, which gets the descriptors `passed` for the container, and
    writes its output to the descriptor `said`.
    """
    try:
        # Copies far above the numbers that are replaced, so that none is closed too early.
        above = [fcntl.fcntl(one, fcntl.F_DUPFD, _FIRST_FREE) for one in (said, *passed)]
        os.dup2(above[0], 1)
        os.dup2(above[0], 2)
        for number, fd in enumerate(above[1:], 3):
            os.dup2(fd, number)
        os.closerange(3 + len(passed), os.sysconf("SC_OPEN_MAX"))
        os.execve(tool.path, line.argv, os.environ | line.variables)
    except OSError as error:
        os.write(2, f"{tool.path}: {error.strerror}\n".encode())
    finally:
        os._exit(1)


def _reap(pid: int) -> int:
    """Wait for the end of a child, and return its exit code, or the negative number of a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _reap_all() -> None:
    """Wait for the processes that the tool has left: they remove the container."""
    deadline = time.monotonic() + _SETTLE_S
    try:
        while os.waitpid(-1, os.WNOHANG)[0] or time.monotonic() < deadline:
            time.sleep(0.01)
    except ChildProcessError:
        pass  # all have ended


def _end_as(code: int) -> NoReturn:
    """End this process as its worker has ended. The tools add 128 to the number of a signal."""
    number = code - 128 if code > 128 else -code
    if number in signal.valid_signals():
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(code & 0xFF)
