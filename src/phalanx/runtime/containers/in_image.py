"""The program of a worker in an image. The Python of the image runs this file.

The container has the node's packages in directories of their own. The file imports nothing of
Phalanx before it has added these directories to the path. Phalanx and the packages that it needs
come from the node, so that node and worker have one version. Any other module comes from the image,
or from the node if the image lacks it.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from typing import NoReturn, TypedDict

PASSED = 4
"""The number of descriptors that this program gets, from 3 on."""
_LIFELINE, _BEGUN, _OUT, _ERR = range(3, 3 + PASSED)
PID_BYTES = 4
_F_SETSIG = 10


class About(TypedDict):
    """The description that a worker gets from the process that has started its container, as
    JSON.
    """

    python: str
    """The version of the node's Python, such as "3.11"."""
    packages: list[str]
    """The directories with the node's packages."""
    worker: str
    """The worker's id in hex."""
    session: str
    """The session as JSON."""
    devices: dict[str, str]
    """The lists of devices that were shown to the node, by resource."""
    forked_as: int
    """The pid of the process that has started the container."""


def main() -> NoReturn:
    """Serve owners until the node stops the worker."""
    about: About = json.loads(sys.argv[1])
    _use_version(about["python"])
    if os.getpid() == 1:
        _stand_as_init()
    sys.argv[:] = [""]
    of_image = sys.path[1:]  # without the directory of this file
    sys.path[:] = [*about["packages"], *of_image]
    import signal

    import msgspec

    from phalanx.runtime.os.own_pid import note_own_pid
    from phalanx.runtime.os.process_names import WORKER, name_process
    from phalanx.runtime.os.process_tree import keep_descendants
    from phalanx.runtime.os.session import Session
    from phalanx.runtime.worker import actor_host, process  # noqa: F401  # loaded from the node
    from phalanx.runtime.worker.ending import exit_after

    sys.path[:] = [*of_image, *about["packages"]]
    os.dup2(_OUT, 1)
    os.dup2(_ERR, 2)
    os.close(_OUT)
    os.close(_ERR)
    name_process(WORKER)
    keep_descendants()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _end_with_lifeline()
    session = msgspec.json.decode(about["session"], type=Session)
    note_own_pid(_greet())
    worker, devices, forked_as = (
        bytes.fromhex(about["worker"]),
        about["devices"],
        about["forked_as"],
    )
    exit_after(lambda: process.main(worker, session, devices, forked_as=forked_as))


def _use_version(wanted: str) -> None:
    """Become the Python of this version, if the image has it under its usual name. Otherwise end
    the process: compiled packages of the node, and functions in messages, need the same version.
    """
    mine = f"{sys.version_info[0]}.{sys.version_info[1]}"
    if mine == wanted:
        return
    if len(sys.argv) == 2:
        with contextlib.suppress(OSError):
            os.execvp(f"python{wanted}", [f"python{wanted}", *sys.argv, "again"])
    sys.exit(
        f"The image has Python {mine}, and the node has Python {wanted}. Tasks and actors need an "
        f"image with python{wanted}."
    )


def _stand_as_init() -> None:
    """Fork a child that becomes the worker. This process stays the first one of the container.

    The kernel keeps most signals from the first process, and the first process must wait for the
    orphans of the container. When the worker ends, this process ends with the worker's exit code,
    or with 128 plus the number of the worker's signal. Only the child returns from this function.
    """
    worker = os.fork()
    while worker:
        pid, status = os.wait()
        if pid == worker:
            code = os.waitstatus_to_exitcode(status)
            os._exit(code if code >= 0 else 128 - code)


def _greet() -> int:
    """Tell the process that has started the container that the worker begins. Returns the pid of
    this process on the machine.
    """
    os.write(_BEGUN, b"1")
    answer = os.read(_BEGUN, PID_BYTES)
    os.close(_BEGUN)
    return int.from_bytes(answer, "little")


def _end_with_lifeline() -> None:
    """Make the kernel kill this process when the process that has started the container ends."""
    import fcntl
    import select
    import signal

    # Opened again, because the settings of a descriptor that was passed on are shared.
    own = os.open(f"/proc/self/fd/{_LIFELINE}", os.O_RDONLY | os.O_NONBLOCK)
    os.close(_LIFELINE)
    fcntl.fcntl(own, _F_SETSIG, int(signal.SIGKILL))
    fcntl.fcntl(own, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(own, fcntl.F_SETFL, os.O_NONBLOCK | os.O_ASYNC)
    ended = select.poll()
    ended.register(own, 0)
    if ended.poll(0):  # it has ended before that
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
