"""More parts of a cluster for `pauses`: its page, an actor that owns tasks, shields, and commands
that are being started.
"""

from __future__ import annotations

import http.cookiejar
import os
import subprocess
import sys
import urllib.request
from pathlib import Path

from tests.node_parts import children_named
from tests.system.chaos.head_restarts import PATIENCE_S, until

import phalanx
from phalanx.runtime.os import serving
from phalanx.runtime.os.process_names import FORK_SERVER, SHIELD
from phalanx.runtime.os.process_tree import children_of


@phalanx.remote(max_retries=0, num_cpus=0.1)
def once(number: int) -> int:
    """Return the number. As a task it may run once and no more."""
    return number


@phalanx.remote(max_restarts=0, max_task_retries=0, num_cpus=0.1)
class Owner:
    """An actor that owns tasks."""

    def pid(self) -> int:
        return os.getpid()

    def ask(self, first: int, count: int) -> list[int]:
        """Run tasks, and return their results."""
        return phalanx.get([once.remote(number) for number in range(first, first + count)])


class Page:
    """The page of a cluster, with a browser that is signed in."""

    def __init__(self, address: str, home: Path) -> None:
        """`home`: the directory in which the page's server announces itself."""
        words = ("-m", "phalanx", "dashboard", "--address", address, "--port", "0")
        env = {**os.environ, "HOME": str(home)}
        said = subprocess.check_output([sys.executable, *words], env=env, text=True)
        self._base, code = said.split("\n")[1].split("/login#code=")
        cookies = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
        self._browser = urllib.request.build_opener(cookies)
        self._ask("/login", f"code={code}".encode())
        (self._server,) = serving.servers(home / ".phalanx" / "dashboard")
        self.pid = self._server.pid

    def wait_for(self, job: str) -> None:
        """Wait until the page lists this job."""
        until(lambda: f">{job}</a>" in self._ask("/jobs"))

    def end(self) -> None:
        serving.stop(self._server)

    def _ask(self, path: str, data: bytes | None = None) -> str:
        headers = {"Sec-Fetch-Site": "same-origin"}
        request = urllib.request.Request(self._base + path, data, headers)
        with self._browser.open(request, timeout=PATIENCE_S) as answer:
            return str(answer.read().decode())


def shields_of(node: int) -> list[int]:
    """Return the pids of the shields (parents of workers and commands) that the node's fork server
    has started.
    """
    return [
        pid
        for fork_server in children_named(node, FORK_SERVER)
        for pid in children_named(fork_server, SHIELD)
    ]


def beginnings(node: int, before: set[int]) -> list[int]:
    """Return the pids of the processes that the fork server of a node has made since `before`, and
    of their children. Some of them do not run their program yet; a thread of the fork server waits
    for these.
    """
    made = [
        pid
        for fork_server in children_named(node, FORK_SERVER)
        for pid in children_of(fork_server)
        if pid not in before
    ]
    return [*made, *(child for pid in made for child in children_of(pid))]
