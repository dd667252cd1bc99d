"""A laptop on a separate network: it logs in, submits and cancels jobs, follows their output, and
has a driver on the cluster while its connection is cut.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.polling import eventually
from tests.present import present
from tests.system.cli.conftest import COMMAND, Machine
from tests.system.cluster.network import IP, Host, Network, why_no_hosts
from tests.system.people.test_client_driver import Program, send, works_over_a_cut
from tests.system.people.test_login import Laptop
from tests.wheels import build_wheel, pip_of


class OnHost(Laptop):
    """A machine whose programs run in one host of the network (a network namespace)."""

    def __init__(self, host: Host) -> None:
        super().__init__()
        self.host = host
        self.prefix = [present(IP), "netns", "exec", host.namespace]

    def begin(
        self, code: str, *arguments: str, stdout: int = subprocess.PIPE, **env: str
    ) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*self.prefix, sys.executable, "-c", code, *arguments],
            env=self.env | env,
            stdin=subprocess.PIPE,
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
        )


@pytest.fixture
def hosts() -> Iterator[tuple[OnHost, OnHost]]:
    """Yield the machine of the cluster, and the laptop."""
    if reason := why_no_hosts():
        pytest.skip(reason)
    network = Network()
    made: list[OnHost] = []
    try:
        made = [OnHost(network.add_host()) for _ in range(2)]
        yield made[0], made[1]
    finally:
        for one in made:
            one.end()
        network.close()


def logged_in(hosts: tuple[OnHost, OnHost]) -> tuple[Machine, OnHost]:
    """Start the cluster, and log the laptop in."""
    lab, laptop = hosts
    address = lab.start_head("--host", lab.host.address)
    token = lab.done("token", "create", "ana").strip()
    pin = lab.done("whoami").splitlines()[1].rpartition(" ")[2]
    words = ["login", address, "--name", "lab", "--fingerprint", pin]
    with laptop.begin(COMMAND, *words) as process:
        _, err = process.communicate(f"{token}\n", timeout=120)
    assert process.returncode == 0, err
    return lab, laptop


def test_a_laptop_submits_follows_and_cancels(hosts: tuple[OnHost, OnHost], tmp_path: Path) -> None:
    lab, laptop = logged_in(hosts)
    project, wheels = tmp_path / "project", tmp_path / "wheels"
    project.mkdir()
    wheels.mkdir()
    (project / "train.py").write_text("import greeting; print(greeting.TEXT, open('data').read())")
    (project / "data").write_text("of the laptop")
    build_wheel(wheels, "greeting", "hello")
    given = pip_of(wheels, "greeting")
    if shutil.which("uv", path=laptop.env["PATH"]):
        given = {"uv": {"packages": given["pip"]["packages"], "uv_pip_install_options": [
            "--offline", "--no-index", "--find-links", str(wheels)]}}  # fmt: skip
    words = ("--working-dir", str(project), "--runtime-env-json", json.dumps(given))
    done = laptop.phalanx("run", "--name", "train", *words, "--", "python", "train.py")
    assert (done.returncode, done.stdout) == (0, "hello of the laptop\n"), done.stderr
    assert f"uploading {project}" in done.stderr
    laptop.done("run", "-d", "--name", "long", "--", "sh", "-c", "echo begun; sleep 600")
    with laptop.begin(COMMAND, "logs", "-f", "long") as following:
        assert present(following.stdout).readline() == "begun\n"
        laptop.done("cancel", "long")
        assert following.communicate(timeout=120)[0] == ""
    assert lab.jobs()["long"]["user"] == "ana"
    eventually(lambda: lab.jobs()["long"]["state"] in ("Aborted", "Terminated"))


def test_its_driver_outlives_a_cut_link(hosts: tuple[OnHost, OnHost], tmp_path: Path) -> None:
    _, laptop = logged_in(hosts)

    def cut(program: Program) -> None:
        laptop.host.cut()
        send(program)
        laptop.host.heal()

    works_over_a_cut(laptop, tmp_path, cut, laptop.prefix)
