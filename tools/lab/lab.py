"""Commands of the administrator and of people in the lab, and checks."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tools.lab.network import Network
from tools.lab.page import Page

NODES = ("gamma", "delta", "epsilon", "zeta")
"""The hosts that run a node all the time."""
ROOT = Path(__file__).parents[2]
WAIT_S = 600.0
LOOK_EVERY_S = 2.0
"""Seconds between two checks of a condition. Each check may start a command on a host."""


class Lab:
    """The hosts of the lab and the page about it. The steps of the lab use this object."""

    def __init__(self, network: Network, page: Page) -> None:
        self.network = network
        self.page = page
        self.here = network.directory / "admin"
        self.program = Path(sys.executable).with_name("phalanx")

    def admin(self, command: str, shown: bool = True, code: int = 0) -> str:
        """Run a command as the administrator, and show it on the page."""
        env = {**os.environ, "PATH": f"{self.program.parent}:{os.environ['PATH']}"}
        done = self.network.from_admin(
            ["sh", "-c", command], check=False, cwd=self.here, env=env, timeout=3600
        )
        check(done.returncode == code, f"{command}: exit {done.returncode}\n{done.stdout}")
        if shown:
            self.page.command("admin", command, done.stdout)
        return done.stdout

    def on(self, host: str, account: str, command: str, shown: bool = True) -> str:
        """Run a command as an account on a host, and show it on the page."""
        done = self.network.on(host, account, command, check=False, timeout=WAIT_S)
        check(done.returncode == 0, f"{account}@{host}: {command}\n{done.stdout}")
        if shown:
            self.page.command(f"{account}@{host}", command, done.stdout)
        return done.stdout

    def rows(self, host: str, command: str, account: str = "phalanx") -> list[dict[str, Any]]:
        """Return the rows that a listing prints as JSON; no rows while the head gives no answer."""
        done = self.network.on(host, account, f"phalanx {command} --json", check=False)
        return list(json.loads(done.stdout)) if done.returncode == 0 else []

    def jobs(self, host: str) -> dict[str, dict[str, Any]]:
        return {row["name"]: row for row in self.rows(host, "jobs")}

    def put(self, host: str, account: str, name: str, text: str) -> None:
        """Write a file into the home of an account."""
        self.network.on(host, account, f"cat > {name}", input=text)

    def head(self, *hosts: str) -> str:
        """Wait until the head on one of these hosts serves, and return that host."""
        found: list[str] = []
        wait(lambda: found.extend(one for one in hosts if self.alive(one)) or found, "a head")
        return found[0]

    def tell_state(self) -> None:
        """Print the state of the cluster, after a step that failed."""
        for host in ("alpha", "beta"):
            for command in ("jobs", "nodes", "status", "explain bobs", "events", "logs --head"):
                if self.is_up(host):
                    done = self.network.on(host, "phalanx", f"phalanx {command}", check=False)
                    last = "\n".join(done.stdout.splitlines()[-30:])
                    print(f"{host}: {command}\n{last}\n", flush=True)

    def is_up(self, host: str) -> bool:
        """Whether a host runs."""
        return (self.network.directory / "hosts" / host / "pid").exists()

    def prepare_cloud(self, host: str, program: str) -> None:
        """Let the account phalanx on this host start and end hosts of the lab's cloud."""
        common = self.network.common
        (common / "cloud").write_text(program)
        (common / "cloud").chmod(0o755)
        key = (common / "cloud-key").read_text()
        self.put(host, "phalanx", "cloud-key", key)
        self.on(host, "phalanx", "chmod 600 cloud-key", shown=False)
        self.network.serve_cloud(f"{sys.executable} {ROOT}/tools/lab/cloud.py")

    def alive(self, host: str) -> set[str]:
        return {row["name"] for row in self.rows(host, "nodes") if row["state"] == "ALIVE"}

    def file(self, name: str, text: str, shown: bool = True) -> None:
        (self.here / name).write_text(text)
        if shown:
            self.page.file(name, text)


def check(is_right: object, what: str) -> None:
    """End the lab with a message unless `is_right` is true."""
    if not is_right:
        raise SystemExit(f"the lab failed: {what}")


def wait(condition: Callable[[], object], what: str) -> float:
    """Wait until a condition holds, and return how many seconds that took."""
    begin = time.monotonic()
    while not condition():
        check(time.monotonic() - begin < WAIT_S, f"{what} did not happen within {WAIT_S:.0f} s")
        time.sleep(LOOK_EVERY_S)
    return time.monotonic() - begin
