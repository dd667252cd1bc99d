"""The process of a job server: what it serves, where, and until when."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TypeVar

import msgspec

import phalanx
from phalanx.compat.jobs import files
from phalanx.compat.jobs.routes import JobRoutes
from phalanx.compat.jobs.server import JobServer
from phalanx.compat.jobs.translation import Place, details_of
from phalanx.engines.embedded.daemons import local_daemons
from phalanx.engines.embedded.visitor import ask_daemon
from phalanx.engines.processes.session import started_at
from phalanx.errors import SystemFailureError
from phalanx.protocol.requests.jobs import ListJobs
from phalanx.protocol.requests.request import Request

R = TypeVar("R")
PORT = 8265
"""Ray's own."""
ANSWER_S = 10.0
_LOOK_EVERY_S = 1.0
_ENDS_EVERY_S = 0.02
_GONE_AFTER = 5
"""So many looks in a row without a head or node of the cluster here, and the server ends."""


class Head:
    """A cluster's head, through whichever daemon of it runs on this machine."""

    def __init__(self, cluster: str) -> None:
        self.cluster = cluster

    def ask(self, request: Request[R]) -> R:
        """See AskHead. Raises ConnectionError, TimeoutError and what the head answers with."""
        troubles = []
        for session, daemon in local_daemons(self.cluster):
            try:
                return ask_daemon(session, daemon, request, ANSWER_S)
            except ConnectionError as error:
                troubles.append(str(error))
        why = "; ".join(troubles) or "nothing of it runs on this machine"
        raise ConnectionError(f"The head at {self.cluster} gives no answer: {why}.")

    def is_here(self) -> bool:
        """Whether the head or a node of it runs on this machine."""
        return bool(local_daemons(self.cluster))


def place(cluster: str) -> Place:
    """This machine, and what commands of this cluster find here."""
    package = Path(phalanx.__file__).parent
    path = [str(package / "compat" / "ray_path"), str(package.parent)]
    programs = [os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)]
    return Place(
        hostname=platform.node(),
        directory=os.getcwd(),
        variables={
            "PATH": os.pathsep.join(programs),
            "PYTHONPATH": os.pathsep.join(filter(None, [*path, os.environ.get("PYTHONPATH")])),
            "PHALANX_ADDRESS": cluster,
            "RAY_ADDRESS": cluster,
        },
    )


def start_server(cluster: str, host: str = "127.0.0.1", port: int = PORT) -> files.Serving:
    """Start a job server for the cluster of this head, which ends when the cluster does.

    Raises SystemFailureError, with the reason, when it cannot start.
    """
    log = files.directory() / "server.log"
    with log.open("ab") as err:
        process = subprocess.Popen(
            [sys.executable, "-m", "phalanx.compat.jobs.process", cluster, host, str(port)],
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
        raise SystemFailureError(f"The job server did not start: {reason}")
    process.returncode = 0  # it lives on, and nobody waits for it
    return msgspec.json.decode(line, type=files.Serving)


def stop_servers() -> None:
    """End this user's job servers on this machine, and wait until their ports are free."""
    for one in files.servers():
        with contextlib.suppress(ProcessLookupError):
            os.kill(one.pid, signal.SIGTERM)
        deadline = time.monotonic() + ANSWER_S
        while started_at(one.pid) == one.started and time.monotonic() < deadline:
            time.sleep(_ENDS_EVERY_S)


def main(cluster: str, host: str, port: str) -> None:
    """Serve until the cluster has gone from this machine; the first line says where, or why not."""
    head = Head(cluster)
    root = files.directory() / "packages" / cluster.replace(":", "-")
    packages = files.Packages(root)
    routes = JobRoutes(head.ask, place(cluster), packages)
    try:
        server = JobServer(host, int(port), files.token(), routes)
    except OSError as error:
        print(f"{host}:{port}: {error.strerror}", flush=True)
        return
    if all(one.cluster != cluster for one in files.servers()):
        packages.keep(_in_use(head))
    me = os.getpid()
    shown = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    where = f"[{shown}]" if ":" in shown else shown
    serving = files.Serving(
        url=f"http://{where}:{server.server_port}",
        cluster=cluster,
        pid=me,
        started=started_at(me) or "",
    )
    files.announce(serving)
    print(json.dumps(msgspec.to_builtins(serving)), flush=True)
    sys.stdout.close()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    missed = 0
    while missed < _GONE_AFTER:
        time.sleep(_LOOK_EVERY_S)
        missed = 0 if head.is_here() else missed + 1


def _in_use(head: Head) -> list[str]:
    """The packages of jobs that are not over."""
    found = []
    for row in head.ask(ListJobs()):
        job = details_of(row)
        if job is not None and not job.status.is_terminal():
            environment = job.runtime_env or {}
            found += [environment.get("working_dir"), *environment.get("py_modules", ())]
    return [uri for uri in found if uri]


if __name__ == "__main__":
    main(*sys.argv[1:])
