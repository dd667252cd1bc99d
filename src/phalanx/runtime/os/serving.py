"""Servers that a user has started for a cluster. Programs find them by files."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec

from phalanx.errors import SystemFailureError
from phalanx.runtime.os.private_files import make_directory
from phalanx.runtime.os.session import started_at

ENDS_S = 10.0
_LOOK_EVERY_S = 0.02


class Serving(msgspec.Struct, kw_only=True):
    """A server. It is alive while the process `pid` exists and has the start time `started`."""

    url: str
    cluster: str
    """HOST:PORT of the head that the server asks."""
    pid: int
    started: str


def place_of(name: str) -> Path:
    """Return the directory for servers of one kind. It is made with mode 0700. Raises
    SystemFailureError if it cannot be made.
    """
    path = Path.home() / ".phalanx" / name
    make_directory(path)
    return path


def url_of(host: str, port: int, scheme: str = "http") -> str:
    """Return the URL at which programs of this machine reach a server that listens on an
    address.
    """
    shown = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"{scheme}://[{shown}]:{port}" if ":" in shown else f"{scheme}://{shown}:{port}"


def announce(directory: Path, url: str, cluster: str) -> Serving:
    """Announce to other programs on this machine that this process serves at `url`."""
    me = os.getpid()
    serving = Serving(url=url, cluster=cluster, pid=me, started=started_at(me) or "")
    path = directory / f"server-{me}.json"
    draft = path.with_suffix(".draft")
    draft.write_bytes(msgspec.json.encode(serving))
    draft.rename(path)
    return serving


def servers(directory: Path) -> list[Serving]:
    """Return the living servers of this user, latest last. Files of dead servers are deleted."""
    found = []
    for path in sorted(directory.glob("server-*.json"), key=lambda path: path.name):
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            one = msgspec.json.decode(path.read_bytes(), type=Serving)
            if started_at(one.pid) == one.started:
                found.append((path.stat().st_mtime, one))
            else:
                path.unlink()
    return [one for _, one in sorted(found, key=lambda pair: pair[0])]


def start(directory: Path, module: str, arguments: list[str]) -> Serving:
    """Run a module that serves, and wait for its first line: a Serving, or why it cannot start.

    Raises SystemFailureError with the reason if the server cannot start.
    """
    log = directory / "server.log"
    with os.fdopen(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as err:
        process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=err,
            start_new_session=True,
        )
    assert process.stdout is not None
    with process.stdout as out:
        line = out.readline()
    if not line.startswith(b"{"):
        reason = line.decode().strip() or f"see {log}"
        process.wait()
        raise SystemFailureError(f"The server did not start: {reason}")
    process.returncode = 0  # the server runs on, and nobody waits for its end
    return msgspec.json.decode(line, type=Serving)


def stop(serving: Serving) -> None:
    """End a server, and wait until it has ended, for at most ENDS_S seconds. Its port is then
    free.
    """
    with contextlib.suppress(ProcessLookupError):
        os.kill(serving.pid, signal.SIGTERM)
    deadline = time.monotonic() + ENDS_S
    while started_at(serving.pid) == serving.started and time.monotonic() < deadline:
        time.sleep(_LOOK_EVERY_S)
