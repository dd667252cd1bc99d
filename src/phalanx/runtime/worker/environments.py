"""Workers in environments: the environment is prepared, then its Python becomes the worker."""

from __future__ import annotations

import collections
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import NoReturn

import msgspec

from phalanx.model.environments import READY, VARIABLE, Environment, reference
from phalanx.runtime.environments.cache import Cache
from phalanx.runtime.environments.place import ENVIRONMENT, environments_directory
from phalanx.runtime.os.session import Session

_TAIL_LINES = 20


def enter(worker: bytes, session: Session, devices: Mapping[str, str]) -> str:
    """Become the worker in the environment that this process's variables describe, if they do.

    Returns "" if they describe none, and the reason if the environment could not be prepared. All
    work in the worker then fails with this reason.
    """
    text = os.environ.pop(ENVIRONMENT, "")
    if not text:
        return ""
    environment = msgspec.json.decode(text, type=Environment)
    directory = environments_directory()
    why = ""
    if not Cache(directory, say=print).has(environment.key):
        why = _prepare(directory, text)
    if not why:
        place = os.path.join(directory, environment.key)
        inherited = json.loads(os.environ.get("PHALANX_RUNTIME_ENV", "{}"))
        os.environ["PHALANX_RUNTIME_ENV"] = json.dumps(inherited | reference(environment))
        about = [worker.hex(), msgspec.json.encode(session).decode(), json.dumps(dict(devices))]
        _become(place, about)
    return why


def _become(place: str, about: list[str]) -> NoReturn:
    """Go on as the worker in the environment of this directory."""
    # This descriptor stays open in the worker, so the environment is not removed.
    os.set_inheritable(_in_use(os.path.join(place, READY)), True)
    os.environ[VARIABLE] = os.path.dirname(place)
    os.environ["VIRTUAL_ENV"] = place
    os.environ["PATH"] = f"{place}/bin{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    python = os.path.join(place, "bin", "python")
    os.execv(python, [python, "-m", "phalanx.runtime.worker.in_environment", *about])


def _prepare(directory: str, text: str) -> str:
    """Prepare an environment. The output of the tool is added to the file KEY.log beside the
    environment. Returns the reason if it failed.
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
