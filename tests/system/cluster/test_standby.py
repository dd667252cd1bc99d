"""A standby replaces a head that dies or is stopped; work goes on, and nothing is lost."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from tests.polling import eventually

from phalanx.runtime.daemons import cluster_token
from phalanx_benchmarks.redis_server import RedisServer


class Machine:
    """A separate home and runtime directory, in which commands run as on another machine."""

    def __init__(self, root: Path, token: str) -> None:
        self.home = root
        self.run_directory = Path(tempfile.mkdtemp(prefix="phx-"))  # a short path, for sockets
        (root / ".phalanx").mkdir(mode=0o700, parents=True)
        self._write(root / ".phalanx" / "token", token)
        # addresses of the loopback network that no other program of this machine listens on
        self.host = (
            f"127.{random.randint(20, 250)}.{random.randint(1, 250)}.{random.randint(1, 250)}"
        )

    @staticmethod
    def _write(path: Path, text: str) -> None:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
        with os.fdopen(fd, "w") as file:
            file.write(text)

    def phalanx(self, *words: str, timeout_s: float = 120) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "HOME": str(self.home), "XDG_RUNTIME_DIR": str(self.run_directory)}
        env.pop("PHALANX_ADDRESS", None)
        command = [sys.executable, "-m", "phalanx", *words]
        return subprocess.run(
            command, env=env, capture_output=True, text=True, timeout=timeout_s, check=False
        )

    def daemon(self, kind: str) -> int | None:
        """Return the pid of the living daemon of this kind; None if there is none."""
        for path in self.run_directory.glob("phalanx/*/daemon"):
            with contextlib.suppress(OSError, ValueError):
                found = json.loads(path.read_text())
                os.kill(found["pid"], 0)
                if found["kind"] == kind:
                    return int(found["pid"])
        return None


class Lab:
    """Two machines for heads, and one with a node."""

    def __init__(self, root: Path, store: str) -> None:
        cluster_token.ensure(str(root / "token"))
        token = (root / "token").read_text()
        self.first, self.second, self.worker = (
            Machine(root / name, token) for name in ("a", "b", "n")
        )
        self._store = store

    def start_head(self, at: Machine) -> str:
        other = self.second if at is self.first else self.first
        done = at.phalanx(
            "start", "--head", "--no-node", "--host", at.host,
            "--standby", f"{other.host}:6380", "--store", self._store,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    def start(self) -> None:
        assert f"Head at {self.first.host}:6380" in self.start_head(self.first)
        assert f"A standby waits at {self.second.host}:6380" in self.start_head(self.second)
        joined = self.worker.phalanx(
            "start", "--address", f"{self.first.host}:6380", "--num-cpus", "3"
        )
        assert joined.returncode == 0, joined.stderr

    def run(self, *words: str) -> str:
        """Run a job, however long the head takes to answer; return the job's output."""
        return eventually(lambda: self._tried(words), "a head that runs a job")

    def _tried(self, words: tuple[str, ...]) -> str:
        done = self.worker.phalanx("run", "--", *words)
        return done.stdout if done.returncode == 0 else ""

    def stop(self) -> None:
        for machine in (self.worker, self.first, self.second):
            for kind in ("head", "standby", "node"):
                if pid := machine.daemon(kind):
                    os.kill(pid, signal.SIGCONT)
            machine.phalanx("stop", "--force", "--forget", "--yes")
            shutil.rmtree(machine.run_directory, ignore_errors=True)


@pytest.fixture
def lab(tmp_path):
    with RedisServer(str(tmp_path / "redis")) as server:
        lab = Lab(tmp_path, server.url)
        try:
            lab.start()
            yield lab
        finally:
            lab.stop()


def test_a_standby_takes_over_from_a_head_that_died(lab, tmp_path):
    done = tmp_path / "done"
    starts = tmp_path / "starts"
    script = f"echo begun >> {starts}; until test -e {done}; do sleep 0.05; done"
    job = lab.worker.phalanx("run", "--detach", "--name", "long", "--", "sh", "-c", script)
    assert job.returncode == 0, job.stderr
    eventually(starts.exists)
    only = lab.second.phalanx("status")
    assert only.returncode != 0
    assert f"the head is at {lab.first.host}:6380" in only.stderr

    os.killpg(lab.first.daemon("head"), signal.SIGKILL)
    assert lab.run("echo", "went on") == "went on\n"
    assert lab.second.daemon("head") is not None
    status = lab.worker.phalanx("status").stdout
    assert f"head at {lab.second.host}:6380" in status
    assert f"standby at {lab.first.host}:6380" in status

    done.touch()
    assert lab.worker.phalanx("logs", "long", "--follow").returncode == 0
    rows = json.loads(lab.worker.phalanx("jobs", "--json").stdout)
    assert {row["name"]: row["state"] for row in rows}["long"] == "Completed"
    assert starts.read_text() == "begun\n", "the job ran once"
    assert f"A standby waits at {lab.first.host}:6380" in lab.start_head(lab.first)


def test_a_head_that_is_stopped_hands_over_and_starts_again_at_once(lab):
    assert "Ended the head" in lab.first.phalanx("stop").stdout
    eventually(lambda: lab.second.daemon("head"))
    assert f"A standby waits at {lab.first.host}:6380" in lab.start_head(lab.first)
    assert lab.run("echo", "went on") == "went on\n"

    assert "Ended the standby" in lab.first.phalanx("stop").stdout
    assert "Ended the head" in lab.second.phalanx("stop").stdout
    assert f"Head at {lab.second.host}:6380" in lab.start_head(lab.second), "nothing to wait for"
    assert lab.run("echo", "and on") == "and on\n"


def test_a_standby_whose_directory_was_removed_is_found_and_takes_over(lab):
    waits = lab.second.daemon("standby")
    shutil.rmtree(lab.second.run_directory / "phalanx")
    eventually(lambda: lab.second.daemon("standby") == waits, "the standby announces itself again")
    os.killpg(lab.first.daemon("head"), signal.SIGKILL)
    assert lab.run("echo", "went on") == "went on\n"
    assert lab.second.daemon("head") == waits


@pytest.mark.slow
def test_a_head_that_stood_still_is_refused_and_stands_by(lab):
    paused = lab.first.daemon("head")
    os.kill(paused, signal.SIGSTOP)
    assert lab.run("echo", "went on") == "went on\n"
    assert lab.second.daemon("head") is not None
    os.kill(paused, signal.SIGCONT)
    eventually(lambda: lab.first.daemon("standby") == paused)
    os.killpg(lab.second.daemon("head"), signal.SIGKILL)
    assert lab.run("echo", "and back") == "and back\n"
    assert lab.first.daemon("head") == paused


@pytest.mark.slow
def test_a_standby_ends_when_it_is_told_to(lab):
    assert "Ended the standby" in lab.second.phalanx("stop").stdout
    assert lab.second.daemon("standby") is None
    assert lab.run("echo", "all well") == "all well\n"
