"""A cluster of Phalanx with Slurm's commands. Its nodes are equal to those of the other system in
number and size.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from phalanx_benchmarks.beside.processes import PATIENCE_S, wait_until

_SMALL = ("--object-store-memory", "80000000")


class PhalanxCluster:
    """A head and several nodes on this machine, with a separate home and runtime directory. As a
    context manager, it ends all its processes at the end.
    """

    def __init__(self, *, nodes: int = 4, cpus: int = 4, gpus: int = 0, rules: str = "") -> None:
        """`rules` is the scheduler's configuration as YAML; "" means the head's default."""
        self.name = "phalanx"
        self.nodes = [f"n{at}" for at in range(1, nodes + 1)]
        self.cpus = cpus
        self._size = ("--num-cpus", str(cpus), "--num-gpus", str(gpus))
        self._rules = rules
        self._at = Path(tempfile.mkdtemp(prefix="bp-", dir="/tmp"))
        os.chmod(self._at, 0o755)
        home, runtime = self._at / "home", self._at / "run"
        for path in (home, runtime):
            path.mkdir(mode=0o700)
        numbers = home / ".phalanx"
        numbers.mkdir(mode=0o700)
        (numbers / "slurm-job-number").write_text("4000\n")  # texts of cases have no such number
        commands = self._at / "bin"
        here = os.path.dirname(sys.executable)
        self.env = {
            "PATH": f"{commands}:{here}:/usr/bin:/bin:/usr/sbin:/sbin",
            "HOME": str(home),
            "USER": "root",
            "XDG_RUNTIME_DIR": str(runtime),
            "LANG": "C.UTF-8",
            "NO_COLOR": "1",
            "TERM": "dumb",
        }
        self._commands = commands

    def __enter__(self) -> PhalanxCluster:
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self, line: str, directory: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run a shell line to its end."""
        return subprocess.run(
            ["sh", "-c", line], env=self.env, cwd=directory or self._at, text=True,
            stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE_S, check=False,
        )  # fmt: skip

    def done(self, line: str) -> str:
        """Return the output of a line that must succeed. Raises RuntimeError if it fails."""
        ended = self.run(line)
        if ended.returncode:
            raise RuntimeError(f"{line}: {ended.stdout}{ended.stderr}")
        return ended.stdout

    def set_rules(self, rules: str) -> None:
        """Set the scheduler's configuration."""
        path = self._at / "rules.yaml"
        path.write_text(rules)
        self.done(f"phalanx scheduler set {path}")

    def settle(self) -> None:
        """Cancel all jobs, and wait until no job is left."""
        self.run("scancel --state=PENDING; scancel --state=RUNNING; scancel --state=SUSPENDED")
        wait_until(lambda: not self.run("squeue -h").stdout.strip(), "the end of Phalanx's jobs")

    def close(self) -> None:
        """End all processes of the cluster."""
        self.run("phalanx stop --force")
        shutil.rmtree(self._at, ignore_errors=True)

    def _start(self) -> None:
        size = (*self._size, *_SMALL)
        first, *others = self.nodes
        head = ("start", "--head", "--port", "0", "--node-name", first, *size)
        self.done(f"phalanx {' '.join(head)}")
        found = re.search(r"[\d.]+:\d+", self.done("phalanx status --json"))
        address = found[0] if found else ""
        for name in others:
            self.done(f"phalanx start --address {address} --node-name {name} {' '.join(size)}")
        self.done(f"phalanx compat slurm install {self._commands}")
        if self._rules:
            self.set_rules(self._rules)
