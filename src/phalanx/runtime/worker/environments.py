"""Workers in environments: the packages are fetched and the software is prepared, then the Python
of the environment, or that of an image, becomes the worker.
"""

from __future__ import annotations

import collections
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from typing import NoReturn

import msgspec

from phalanx.errors import SystemFailureError
from phalanx.model.environments import (
    DRIVER_DIRECTORY,
    ENVIRONMENT,
    IMAGE,
    READY,
    VARIABLE,
    Environment,
    reference,
)
from phalanx.model.packages import VARIABLE as PACKAGES
from phalanx.model.packages import read_uris
from phalanx.protocol.requests.packages import PackageRead, ReadPackage
from phalanx.runtime.daemons.daemon_files import Announcement
from phalanx.runtime.daemons.visitor import ask_daemon
from phalanx.runtime.environments.cache import Cache
from phalanx.runtime.environments.fetching import FetchError, fetch
from phalanx.runtime.environments.place import environments_directory
from phalanx.runtime.environments.unpacking import UnpackError
from phalanx.runtime.os.session import Session

HEAD_S = 120.0
"""Seconds for which a worker waits for a head that cannot be reached."""
ANSWER_S = 60.0
LOOK_AGAIN_S = 0.5
_TAIL_LINES = 20


def enter(worker: bytes, session: Session, devices: Mapping[str, str]) -> str:
    """Become the worker in the environment that this process's variables describe.

    Returns "" if the worker may continue in this process, and the reason if the environment could
    not be prepared or its image could not be used. All work in the worker then fails with this
    reason.
    """
    text, packages = os.environ.pop(ENVIRONMENT, ""), os.environ.pop(PACKAGES, "")
    directory = environments_directory()
    if packages and (why := _fetch(packages, directory, session)):
        return why
    os.environ[VARIABLE] = directory
    if not text:
        return ""
    environment = msgspec.json.decode(text, type=Environment)
    drivers = os.environ.pop(DRIVER_DIRECTORY, "")
    if not Cache(directory, say=print).has(environment.key) and (why := _prepare(directory, text)):
        return why
    place = os.path.join(directory, environment.key)
    if environment.tool == IMAGE:
        # Imported here because few workers run in images.
        from phalanx.runtime.containers.worker import run_worker

        held = _in_use(os.path.join(place, READY))
        failure = run_worker(environment, place, worker, session, devices, (directory,), drivers)
        os.close(held)
        return failure
    inherited = json.loads(os.environ.get("PHALANX_RUNTIME_ENV", "{}"))
    os.environ["PHALANX_RUNTIME_ENV"] = json.dumps(inherited | reference(environment))
    about = [worker.hex(), msgspec.json.encode(session).decode(), json.dumps(dict(devices))]
    return _become(place, about)


def _fetch(packages: str, directory: str, session: Session) -> str:
    """Fetch packages through the node of this session. Returns the reason if that failed."""
    try:
        fetch(read_uris(packages), directory, _ask_through(session))
    except (FetchError, UnpackError, ValueError) as error:
        return f"The packages of the environment could not be fetched: {error}."
    except OSError as error:
        at = f" ({error.filename})" if error.filename else ""
        return f"The packages of the environment could not be fetched: {error.strerror}{at}."
    return ""


def _ask_through(session: Session) -> Callable[[ReadPackage], PackageRead]:
    """Return the function that reads from the head, and waits while the head cannot be reached."""
    node = Announcement(kind="node", pid=os.getppid(), started="", address="", token_file="")

    def ask(request: ReadPackage) -> PackageRead:
        deadline = time.monotonic() + HEAD_S
        while True:
            try:
                return ask_daemon(session, node, request, ANSWER_S)
            except (ConnectionError, TimeoutError, SystemFailureError) as error:
                if time.monotonic() > deadline:
                    raise FetchError(f"the head cannot be reached: {error}") from None
                time.sleep(LOOK_AGAIN_S)

    return ask


def _become(place: str, about: list[str]) -> NoReturn:
    """Replace this process by the Python of the environment in directory `place`, which then runs
    the worker. `about`: the worker's arguments.
    """
    # This descriptor stays open in the worker, so the environment is not removed.
    os.set_inheritable(_in_use(os.path.join(place, READY)), True)
    os.environ["VIRTUAL_ENV"] = place
    os.environ["PATH"] = f"{place}/bin{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    python = os.path.join(place, "bin", "python")
    os.execv(python, [python, "-m", "phalanx.runtime.worker.in_environment", *about])


def _prepare(directory: str, text: str) -> str:
    """Prepare an environment. The output of the tool is added to the file KEY.log beside the
    environment. If the preparation failed, returns the reason.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "phalanx.runtime.environments.prepare", directory, "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(text)
    process.stdin.close()
    last: collections.deque[str] = collections.deque(maxlen=_TAIL_LINES)
    key = msgspec.json.decode(text, type=Environment).key
    os.makedirs(directory, mode=0o700, exist_ok=True)
    with open(os.path.join(directory, f"{key}.log"), "a", encoding="utf-8") as log:
        for line in process.stdout:
            log.write(line)
            log.flush()
            last.append(line)
    if process.wait() == 0:
        return ""
    return "The environment could not be prepared:\n" + "".join(last)


def _in_use(ready: str) -> int:
    """Return a descriptor that marks the environment as used while it is open."""
    import fcntl

    fd = os.open(ready, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_SH)
    return fd
