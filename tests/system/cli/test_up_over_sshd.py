"""`phalanx up` over OpenSSH's own programs: an sshd on loopback, with keys of its own."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator

import pytest
from tests.polling import eventually
from tests.ports import free_port
from tests.system.cli.machines_over_ssh import Lab, lab_with, wheel
from tests.system_programs import find_tool

SSHD = find_tool("sshd")
CONFIG = """\
Port {port}
ListenAddress 127.0.0.1
HostKey {keys}/host
AuthorizedKeysFile {keys}/person.pub
StrictModes no
UsePAM no
PidFile none
Subsystem sftp internal-sftp -d {home}
SetEnv HOME={home} XDG_RUNTIME_DIR={home}/run
"""
FILE = """\
head = "alpha"

[install]
package = "{wheel}"
python = "{python}"
venv = "~/software"

[ssh]
port = {ssh_port}
options = [
    "IdentityFile={keys}/person",
    "UserKnownHostsFile={keys}/known",
    "StrictHostKeyChecking=accept-new",
]

[start]
port = {port}
num_cpus = 1
object_store_memory = 80000000

[machines.alpha]
host = "127.0.0.1"
"""


@pytest.fixture
def lab() -> Iterator[Lab]:
    with lab_with("") as lab:
        yield lab


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(SSHD is None, reason="sshd is missing: apt-get install openssh-server")
def test_a_machine_is_installed_and_started_through_a_real_sshd(lab: Lab) -> None:
    keys, home, ssh_port = lab.directory / "keys", lab.hosts / "alpha", free_port()
    keys.mkdir(mode=0o700)
    for name in ("host", "person"):
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(keys / name)]
        subprocess.run(words, check=True)
    config = keys / "sshd_config"
    config.write_text(CONFIG.format(port=ssh_port, keys=keys, home=home))
    if os.getuid() == 0:
        os.makedirs("/run/sshd", mode=0o755, exist_ok=True)
    with subprocess.Popen([str(SSHD), "-D", "-e", "-f", str(config)], stderr=-1) as sshd:
        try:
            eventually(lambda: sshd.poll() is not None or answers(ssh_port))
            assert sshd.poll() is None, sshd.stderr and sshd.stderr.read()
            lab.file.write_text(
                FILE.format(
                    wheel=wheel(lab.directory, "only"), python=lab.python, keys=keys,
                    ssh_port=ssh_port, port=lab.port,
                )
            )  # fmt: skip
            programs = os.environ["PATH"]  # without the stand-in
            said = lab.phalanx("up", str(lab.file), PATH=programs)
            assert "installed phalanx-0.2.0-py3-none-any.whl, started the head, started" in said
            assert set(lab.daemons("alpha")) == {"head", "node"}
            assert "alpha: nothing to do" in lab.phalanx("up", str(lab.file), PATH=programs)
            lab.phalanx("down", str(lab.file), PATH=programs)
            assert lab.daemons("alpha") == {}
        finally:
            sshd.terminate()


def answers(port: int) -> bool:
    """Whether a server listens on this port."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
