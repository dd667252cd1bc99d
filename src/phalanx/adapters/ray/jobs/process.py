"""The process of a job server, which ends with its cluster on this machine."""

from __future__ import annotations

import json
import os
import platform
import sys
import threading
import time
from pathlib import Path

import msgspec

import phalanx
from phalanx.adapters.ray.jobs import files
from phalanx.adapters.ray.jobs.routes import JobRoutes
from phalanx.adapters.ray.jobs.server import JobServer
from phalanx.adapters.ray.jobs.translation import Place, details_of
from phalanx.adapters.ray.tokens import auth_token
from phalanx.api.directories import current_directory
from phalanx.protocol.requests.jobs import ListJobs
from phalanx.runtime.daemons.finding import HeadHere
from phalanx.runtime.os import serving

PORT = 8265
"""The default port of a job server, as in Ray."""
_LOOK_EVERY_S = 1.0
_GONE_AFTER = 5
"""The server ends after this number of successive checks without a head or node of the cluster on
this machine.
"""


def place(cluster: str) -> Place:
    """Return the name of this machine, and the directory and variables of commands that use the
    cluster.
    """
    package = Path(phalanx.__file__).parent
    path = [str(package / "adapters" / "ray" / "path"), str(package.parent)]
    programs = [os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)]
    return Place(
        hostname=platform.node(),
        directory=current_directory(),
        variables={
            "PATH": os.pathsep.join(programs),
            "PYTHONPATH": os.pathsep.join(filter(None, [*path, os.environ.get("PYTHONPATH")])),
            "PHALANX_ADDRESS": cluster,
            "RAY_ADDRESS": cluster,
        },
    )


def start_server(cluster: str, host: str = "127.0.0.1", port: int = PORT) -> serving.Serving:
    """Start a job server for this head's cluster. The server ends when the cluster ends. Raises
    SystemFailureError, with the reason, if the server cannot start.
    """
    arguments = [cluster, host, str(port)]
    return serving.start(files.directory(), "phalanx.adapters.ray.jobs.process", arguments)


def stop_servers() -> None:
    """End this user's job servers on this machine, and wait until their ports are free."""
    for one in serving.servers(files.directory()):
        serving.stop(one)


def main(cluster: str, host: str, port: str) -> None:
    """Serve until the cluster has gone from this machine.

    The first line of output is the address at which the server listens, or the reason why it cannot
    start.
    """
    head = HeadHere(cluster)
    root = files.directory() / "packages" / cluster.replace(":", "-")
    packages = files.Packages(root)
    routes = JobRoutes(head.ask, place(cluster), packages)
    try:
        tokens = (files.token(), *filter(None, [auth_token()]))
        server = JobServer(host, int(port), tokens, routes)
    except OSError as error:
        print(f"{host}:{port}: {error.strerror}", flush=True)
        return
    if all(one.cluster != cluster for one in serving.servers(files.directory())):
        packages.keep(_in_use(head))
    url = serving.url_of(host, server.server_port)
    said = serving.announce(files.directory(), url, cluster)
    print(json.dumps(msgspec.to_builtins(said)), flush=True)
    sys.stdout.close()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    missed = 0
    while missed < _GONE_AFTER:
        time.sleep(_LOOK_EVERY_S)
        missed = 0 if head.is_here() else missed + 1


def _in_use(head: HeadHere) -> list[str]:
    """Return the packages of jobs that are not over."""
    found = []
    for row in head.ask(ListJobs()):
        job = details_of(row)
        if job is not None and not job.status.is_terminal():
            environment = job.runtime_env or {}
            found += [environment.get("working_dir"), *environment.get("py_modules", ())]
    return [uri for uri in found if uri]


if __name__ == "__main__":
    main(*sys.argv[1:])
