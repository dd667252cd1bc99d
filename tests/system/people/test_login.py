"""`phalanx login` on a machine without a node, and the commands that can be used there
afterwards.
"""

from __future__ import annotations

import os
import pty
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from tests.system.cli.conftest import COMMAND, PATIENCE_S, Machine

PROGRAM = """
import phalanx
job = phalanx.submit(phalanx.Job("echo far", name="from-python"))
print(job.wait(60), job.logs().strip(), job.status().user)
"""

LONG = """
kind: Job
metadata: {name: long}
spec:
  tasks: [{name: w, template: {spec: {containers: [{command: [sleep, "600"]}]}}}]
"""


def own_address() -> str:
    """Return an address of this machine for which TLS is required."""
    for addresses in psutil.net_if_addrs().values():
        for one in addresses:
            if one.family == socket.AF_INET and not one.address.startswith("127."):
                return one.address
    pytest.skip("this machine has no address but loopback")


class Laptop(Machine):
    """A machine without a daemon and without environment variables: it knows only what its user
    typed.
    """

    def __init__(self) -> None:
        super().__init__()
        self.env.pop("XDG_CONFIG_HOME", None)
        self.file = Path(self.home, ".config", "phalanx", "logins.json")

    def typed(self, token: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command with a token on its standard input."""
        return subprocess.run(
            [sys.executable, "-c", COMMAND, *arguments],
            env=self.env,
            input=token + "\n",
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
            start_new_session=True,
        )


def token_of(machine: Machine, name: str, *more: str) -> str:
    return machine.done("token", "create", name, *more).strip()


@pytest.fixture
def laptop() -> Iterator[Laptop]:
    made = Laptop()
    yield made
    made.end()


def test_everything_that_asks_the_head_works_with_a_login(
    machine: Machine, laptop: Laptop, tmp_path: Path
) -> None:
    address = machine.start_head()
    said = laptop.typed(token_of(machine, "ana"), "login", address, "--name", "lab")
    assert said.returncode == 0 and "as token:ana, role user" in said.stdout, said.stderr
    assert stat.S_IMODE(laptop.file.stat().st_mode) == 0o600
    assert "token:ana, role user" in laptop.done("whoami")
    assert laptop.done("run", "--name", "far", "--", "sh", "-c", "echo hello; pwd") == (
        "hello\n" + laptop.done("logs", "far").splitlines()[1] + "\n"
    )
    assert os.getcwd() not in laptop.done("logs", "far")
    assert machine.jobs()["far"]["user"] == "ana"
    manifest = tmp_path / "job.yaml"
    manifest.write_text(LONG)
    laptop.done("submit", str(manifest))
    assert "long" in laptop.done("jobs")
    assert "long" in laptop.done("explain", "long")
    assert "CPU" in laptop.done("status") and "default" in laptop.done("queue", "list")
    laptop.done("cancel", "long")
    assert laptop.python(PROGRAM).stdout == "Completed far ana\n"
    for words in (["shell", "far"], ["run", "--pty", "--", "true"], ["alloc", "--", "true"]):
        refused = laptop.phalanx(*words)
        assert refused.returncode == 2 and "does not work from here" in refused.stderr, words
    assert laptop.phalanx("queue", "create", "mine").returncode == 4
    started = laptop.done("start", "--head", "--port", "0", "--num-cpus", "1")
    assert f"ask {address}, the current login" in started
    assert laptop.done("whoami").startswith("token:ana")
    assert laptop.done("whoami", "--address", "local").startswith("unix:")
    laptop.done("stop")
    laptop.done("logout")
    assert "No head and no node runs" in laptop.phalanx("jobs").stderr


def test_of_several_logins_one_is_current(machine: Machine, laptop: Laptop) -> None:
    address = machine.start_head()
    for name in ("ana", "bo"):
        laptop.typed(token_of(machine, name), "login", address, "--name", name)
    assert laptop.done("whoami").startswith("token:bo")
    assert laptop.done("whoami", "--address", "ana").startswith("token:ana")
    assert laptop.done("whoami", PHALANX_ADDRESS="ana").startswith("token:ana")
    laptop.done("login", "ana")
    assert laptop.done("whoami").startswith("token:ana")
    listed = laptop.done("login").splitlines()
    assert [line.split()[:2] for line in listed[1:]] == [["*", "ana"], ["bo", address]]
    assert token_of(machine, "cy") not in "".join(listed)
    assert "no login 'an'" in laptop.phalanx("logout", "an").stderr


def test_a_login_needs_a_token_that_the_head_knows(machine: Machine, laptop: Laptop) -> None:
    address = machine.start_head()
    token = token_of(machine, "ana")
    machine.done("token", "revoke", "ana")
    refused = laptop.typed(token, "login", address)
    assert refused.returncode == 4 and "does not know this token" in refused.stderr
    assert laptop.typed("hunter2", "login", address).returncode == 2
    assert laptop.typed(token, "login", "not an address:x").returncode == 2
    assert not laptop.file.exists()


def test_the_certificate_is_confirmed_once_and_stays(machine: Machine, laptop: Laptop) -> None:
    host = own_address()
    address = machine.start_head("--host", host)
    token = token_of(machine, "ana")
    pin = machine.done("whoami").splitlines()[1].rpartition(" ")[2]
    assert pin.startswith("SHA256:")
    nobody = laptop.typed(token, "login", address)
    assert nobody.returncode == 2 and "--fingerprint" in nobody.stderr, nobody.stderr
    assert pin in nobody.stdout
    wrong = laptop.typed(token, "login", address, "--fingerprint", "00" * 32)
    assert wrong.returncode == 4 and "shows another certificate" in wrong.stderr
    good = laptop.typed(token, "login", address, "--fingerprint", pin)
    assert good.returncode == 0, good.stderr
    machine.done("stop")
    machine.done("start", "--head", "--host", host, "--port", address.rpartition(":")[2])
    assert laptop.done("whoami").startswith("token:ana"), "the next head has the same certificate"
    machine.done("stop")
    (pem,) = Path(machine.home, ".phalanx", "store").glob("*.pem")
    pem.unlink()
    machine.done("start", "--head", "--host", host, "--port", address.rpartition(":")[2])
    other = laptop.phalanx("jobs")
    assert other.returncode == 4 and "shows another certificate" in other.stderr


def test_the_user_is_asked_at_a_terminal(machine: Machine, laptop: Laptop) -> None:
    address = machine.start_head("--host", own_address())
    token = token_of(machine, "ana", "--file", os.path.join(laptop.directory, "token"))
    assert token == f"token ana is in {laptop.directory}/token"
    words = ["login", address, "--token-file", os.path.join(laptop.directory, "token")]
    for answer, code in (("n", 4), ("y", 0)):
        pid, terminal = pty.fork()
        if pid == 0:
            os.execve(sys.executable, [sys.executable, "-c", COMMAND, *words], laptop.env)
        os.write(terminal, f"{answer}\n".encode())
        seen = b""
        while part := _read(terminal):
            seen += part
        os.close(terminal)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == code, seen.decode()
        assert b"SHA256:" in seen
        assert laptop.file.exists() is (code == 0)


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # the program has ended
        return b""


def test_a_certificate_of_an_authority(machine: Machine, laptop: Laptop) -> None:
    host = own_address()
    pem, ca = signed_for(host)
    store = Path(machine.home, ".phalanx", "store")
    store.mkdir(parents=True, mode=0o700)
    file = store / f"{socket.gethostname()}.db.pem"
    file.touch(0o600)
    file.write_bytes(pem)
    address = machine.start_head("--host", host)
    token = token_of(machine, "ana")
    authorities = Path(laptop.directory, "ca.pem")
    authorities.write_bytes(ca)
    assert laptop.typed(token, "login", address, "--ca", str(authorities)).returncode == 0
    assert laptop.done("whoami").startswith("token:ana")
    _, stranger = signed_for(host)
    authorities.write_bytes(stranger)
    refused = laptop.phalanx("whoami")
    assert refused.returncode == 4 and "not from an authority" in refused.stderr


def signed_for(host: str) -> tuple[bytes, bytes]:
    """Return a key with a certificate for an address, and the certificate of the authority that
    signed it.
    """
    import datetime
    import ipaddress

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    now = datetime.datetime.now(datetime.UTC)
    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(2)]
    names = [
        x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)]) for name in ("ca", host)
    ]
    made = []
    for at, (key, name) in enumerate(zip(keys, names, strict=True)):
        builder = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(names[0])
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=at == 0, path_length=None), critical=True)
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
            )
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(keys[0].public_key()),
                critical=False,
            )
        )
        if at:
            alternative = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(host))])
            builder = builder.add_extension(alternative, critical=False)
        else:
            usage = x509.KeyUsage(*(i in (5, 6) for i in range(9)))
            builder = builder.add_extension(usage, critical=True)
        made.append(builder.sign(keys[0], hashes.SHA256()))
    secret = keys[1].private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    authority, leaf = (one.public_bytes(serialization.Encoding.PEM) for one in made)
    return secret + leaf, authority
