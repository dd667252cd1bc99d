"""phalanx-launch under attack: nothing runs as another account, and strangers learn nothing."""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.polling import eventually
from tests.system.people.system_machine import (
    ACCOUNTS,
    KEY,
    NODE,
    NODE_USER,
    ROOT,
    RUN,
    STATE,
    SystemMachine,
    kill_launch,
    need_root,
    processes_of,
)

from phalanx.runtime.launch import program

ANA, BO = ACCOUNTS["ana"], ACCOUNTS["bo"]
ASK = """
import array, signal, socket, sys
ours, theirs = socket.socketpair(*map(int, sys.argv[3].split(",")))
door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
door.settimeout(60)
door.connect(sys.argv[1])
data = bytes.fromhex(sys.argv[2])
files = [theirs.fileno()] * int(sys.argv[4])
try:
    door.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", files))])
    told = door.recv(100)
except OSError as error:
    told = type(error).__name__.encode()
print(told.decode() or "nothing", flush=True)
if told == b"begun":
    signal.pause()
"""
STREAM = f"{int(socket.AF_UNIX)},{int(socket.SOCK_STREAM)}"


class Attacked:
    """Root's program, which has the head's key, on a simulated machine."""

    def __init__(self, machine: SystemMachine) -> None:
        self.machine = machine
        self.key = Ed25519PrivateKey.generate()
        self.write(KEY, self.key.public_key().public_bytes_raw().hex())
        machine.start_launch()

    def write(self, path: str, text: str) -> None:
        """Write a file of root's on the machine."""
        words = ("/bin/sh", "-c", f"umask 022; printf %s '{text}' > {path}")
        assert self.machine.run("root", *words).returncode == 0

    def grant(self, key: Ed25519PrivateKey | None = None, **fields: Any) -> bytes:
        """Return a signed grant with some fields changed, and without the fields that are None."""
        all_fields: dict[str, Any] = {
            "v": 1,
            "user": "ana",
            "uid": ANA,
            "job": "default/job",
            "attempt": 1,
            "node": NODE,
            "devices": [],
            "expires": int(time.time()) + 120,
            "nonce": secrets.token_hex(16),
        }
        all_fields |= fields
        body = json.dumps({k: v for k, v in all_fields.items() if v is not None}).encode()
        return (key or self.key).sign(body) + body

    @contextmanager
    def begin(
        self, data: bytes, account: str = NODE_USER, kind: str = STREAM, count: int = 1
    ) -> Iterator[subprocess.Popen[str]]:
        """Send a message as an account. The process that sent it is killed when the block ends."""
        words = (f"{RUN}/socket", data.hex(), kind, str(count))
        with self.machine.begin(account, sys.executable, "-c", ASK, *words) as asking:
            try:
                yield asking
            finally:
                asking.kill()

    def told(self, data: bytes, **how: Any) -> str:
        """Send a message; return the answer of root's program. Then kill the process that sent it,
        which also ends what was started for it.
        """
        with self.begin(data, **how) as asking:
            assert asking.stdout is not None
            told = asking.stdout.readline().strip()
            asking.kill()
            asking.communicate()
        return told

    def is_idle(self) -> bool:
        """Whether no process of the accounts runs, and root's program has no child.

        Root's program answers before its child has changed its account, so it is not enough to look
        at the processes of the accounts.
        """
        assert self.machine.launch is not None
        below = children(self.machine.launch.pid)
        return nobody_runs() and all(state_of(child) in ("", "Z") for child in below)


@pytest.fixture(scope="module")
def attacked() -> Iterator[Attacked]:
    need_root()
    machine = SystemMachine()
    eventually(nobody_runs, "the end of what earlier tests have started")
    try:
        yield Attacked(machine)
    finally:
        machine.end()


def nobody_runs() -> bool:
    """Whether no process runs as ana or bo."""
    return not processes_of(ANA) and not processes_of(BO)


def test_a_grant_of_the_head_begins(attacked: Attacked) -> None:
    with attacked.begin(attacked.grant()) as asking:
        assert asking.stdout is not None
        assert asking.stdout.readline() == "begun\n"
        # It is said before the child is another account.
        eventually(lambda: processes_of(ANA), "the start of what was granted")
        asking.kill()
        asking.communicate()
    eventually(attacked.is_idle, "the end of what was started, when its node was gone")


BAD: dict[str, Callable[[Attacked], bytes]] = {
    "forged": lambda a: a.grant(Ed25519PrivateKey.generate()),
    "changed": lambda a: a.grant().replace(b'"ana"', b'"bo" '),
    "a bit of the signature": lambda a: bytes([(d := a.grant())[0] ^ 1]) + d[1:],
    "s not reduced": lambda a: malleable(a.grant()),
    "signature of nothing": lambda a: a.key.sign(b"") + a.grant()[64:],
    "zeros": lambda a: bytes(64) + a.grant()[64:],
    "neutral point": lambda a: b"\1" + bytes(63) + a.grant()[64:],
    "empty": lambda a: b"",
    "one byte": lambda a: b"x",
    "signature alone": lambda a: a.grant()[:64],
    "truncated": lambda a: a.grant()[:-1],
    "longer": lambda a: a.grant() + b" ",
    "expired": lambda a: a.grant(expires=int(time.time()) - 1),
    "valid for too long": lambda a: a.grant(expires=int(time.time()) + 3600),
    "of another node": lambda a: a.grant(node="m2"),
    "of another version": lambda a: a.grant(v=2),
    "root": lambda a: a.grant(user="root", uid=0),
    "root by another name": lambda a: a.grant(user="ana", uid=0),
    "an account of the machine": lambda a: a.grant(user="robot", uid=ACCOUNTS["robot"]),
    "the node itself": lambda a: a.grant(user=NODE_USER, uid=ACCOUNTS[NODE_USER]),
    "below zero": lambda a: a.grant(uid=-1),
    "the kernel's nobody": lambda a: a.grant(uid=2**32 - 1),
    "beyond numbers": lambda a: a.grant(uid=2**32 + 0),
    "a number as text": lambda a: a.grant(uid=str(ANA)),
    "a fraction": lambda a: a.grant(uid=float(ANA)),
    "true": lambda a: a.grant(v=True),
    "without a field": lambda a: a.grant(nonce=None),
    "with another field": lambda a: a.grant(program="/bin/sh"),
    "a path as its number": lambda a: a.grant(nonce="../../../../../../tmp/xxxxxxxxxx"),
    "an empty number": lambda a: a.grant(nonce=""),
    "a null byte": lambda a: a.grant(nonce="\0" * 32),
}


def malleable(data: bytes) -> bytes:
    """Return the message with an equivalent signature, whose number s is too large. Verifiers must
    refuse it.
    """
    s = int.from_bytes(data[32:64], "little") + program.ORDER
    return data[:32] + s.to_bytes(32, "little") + data[64:]


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_message_gets_no_answer_and_starts_nothing(attacked: Attacked, kind: str) -> None:
    assert attacked.told(BAD[kind](attacked)) == "nothing"
    assert nobody_runs()


@pytest.mark.parametrize("body", [b"[" * 30_000, b"null", b"[]", b"{}", b"1" * 9_000, b"\xff" * 50])
def test_signed_nonsense_starts_nothing(attacked: Attacked, body: bytes) -> None:
    assert attacked.told(attacked.key.sign(body) + body) == "nothing"
    assert nobody_runs()


def test_a_message_above_the_limit_is_refused_whole(attacked: Attacked) -> None:
    grant = attacked.grant(job="j" * program.MOST_BYTES)
    with attacked.machine.begin(
        NODE_USER,
        sys.executable,
        "-c",
        ASK.replace("bytes.fromhex(sys.argv[2])", "bytes(100_000)"),
        f"{RUN}/socket",
        "",
        STREAM,
        "1",
    ) as asking:
        assert asking.communicate()[0].strip() == "nothing"
    assert len(grant) > program.MOST_BYTES and nobody_runs()


@pytest.mark.parametrize("count", [0, 2, 9, 60])
def test_a_message_brings_one_socket(attacked: Attacked, count: int) -> None:
    assert attacked.told(attacked.grant(), count=count) == "nothing"
    assert nobody_runs()


def test_a_grant_works_once_also_after_a_new_start(attacked: Attacked) -> None:
    grant = attacked.grant()
    assert attacked.told(grant) == "begun"
    assert attacked.told(grant) == "nothing"
    assert attacked.machine.launch is not None
    kill_launch(attacked.machine.launch)
    attacked.machine.start_launch()
    assert attacked.told(grant) == "nothing"
    assert attacked.told(attacked.grant()) == "begun"
    eventually(attacked.is_idle)


def test_two_that_use_one_grant_at_once(attacked: Attacked) -> None:
    grant = attacked.grant()
    told = []
    with ExitStack() as stack:
        for asking in [stack.enter_context(attacked.begin(grant)) for _ in range(6)]:
            assert asking.stdout is not None
            told.append(asking.stdout.readline().strip())
    assert sorted(told) == ["begun"] + ["nothing"] * 5
    eventually(attacked.is_idle)


@pytest.mark.parametrize("account", ["ana", "bo", "robot"])
def test_a_stranger_is_told_nothing(attacked: Attacked, account: str) -> None:
    assert (
        "PermissionError"
        in attacked.machine.run(
            account, sys.executable, "-c", ASK, f"{RUN}/socket", attacked.grant().hex(), STREAM, "1"
        ).stderr
    )
    done = attacked.machine.run("root", "/bin/chmod", "666", f"{RUN}/socket")
    assert done.returncode == 0
    try:  # where somebody has opened the socket by mistake, the kernel's word still counts
        assert attacked.told(attacked.grant(), account=account) in (
            "nothing",
            "ConnectionResetError",
            "BrokenPipeError",
        )
        assert [p for p in processes_of(ACCOUNTS[account]) if account != "robot"] == []
    finally:
        attacked.machine.run("root", "/bin/chmod", "600", f"{RUN}/socket")


def test_an_account_that_differs_here_is_said_to_the_node(attacked: Attacked) -> None:
    assert attacked.told(attacked.grant(user="nobody-here")) == "no account"
    assert attacked.told(attacked.grant(uid=BO)) == "no account"
    assert attacked.told(attacked.grant(user="../ana")) == "no account"
    assert attacked.told(attacked.grant(user="ana\0")) == "no account"
    assert nobody_runs()


@pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL])
def test_a_signal_at_any_moment_leaves_nothing_of_anybody_else(
    attacked: Attacked, number: signal.Signals, step: int
) -> None:
    """The signal is sent to the children of root's program, at many different moments of their
    work.
    """
    assert attacked.machine.launch is not None
    main = attacked.machine.launch.pid
    seen: set[int] = set()
    for delay in range(0, 12, step):
        with attacked.begin(attacked.grant()) as asking:
            deadline = time.monotonic() + 0.02 * delay
            while time.monotonic() < deadline:
                seen |= ids_below(main)
            for pid in children(main):
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
            seen |= ids_below(main)
            assert asking.stdout is not None
            asking.stdout.readline()
            asking.kill()
            asking.communicate()
        eventually(attacked.is_idle)
    assert seen <= {0, ANA}, seen
    assert attacked.told(attacked.grant()) == "begun"
    eventually(attacked.is_idle)


def test_links_at_its_paths_stop_it(attacked: Attacked) -> None:
    machine = attacked.machine
    home = machine.home("ana")
    evil = f"{home}/evil"
    script = (
        f"ln -s {KEY} /run/link-to-key; mkdir -m 777 /run/open; cp {KEY} /run/open/key; "
        f"ln -s {home} /run/link-to-home; cp {KEY} {evil}; mkdir -m 755 /run/elsewhere; "
        f"chown {ANA} {evil}"
    )
    made = machine.run("root", "/bin/sh", "-ec", script)
    assert made.returncode == 0, made.stderr
    for options in (
        {"key": "/run/link-to-key"},
        {"key": "/run/open/key"},
        {"key": evil},
        {"run": "/run/link-to-home"},
        {"run": "/run/open"},
        {"run": f"{home}/here"},
        {"run": "/run/elsewhere", "state": "/run/open/state"},
        {"run": "/run/elsewhere", "state": "/run/link-to-home/state"},
    ):
        with pytest.raises(AssertionError, match="must be root's"):
            machine.start_launch(**options)
    assert not os.path.exists(f"{home}/here"), "nothing is made in a directory of somebody else's"
    assert attacked.told(attacked.grant()) == "begun", "the one that runs goes on"
    eventually(attacked.is_idle)


def test_a_link_in_place_of_a_used_grant_is_not_followed(attacked: Attacked) -> None:
    nonce, expires = secrets.token_hex(16), int(time.time()) + 120
    words = ("/bin/ln", "-s", "/run/made-by-link", f"{STATE}/{expires}-{nonce}")
    assert attacked.machine.run("root", *words).returncode == 0
    assert attacked.told(attacked.grant(nonce=nonce, expires=expires)) == "nothing"
    assert attacked.machine.run("root", "/bin/ls", "/run/made-by-link").returncode != 0


READ_AT_START = (f"{sys.prefix}/", f"{sys.base_prefix}/", f"{ROOT}/")
"""The directories from which Python loads modules when it starts."""


def files_of_started_python(pid: int) -> list[tuple[int, str]]:
    """Return the open files of a process; none while its Python still reads modules."""
    found = []
    for number in os.listdir(f"/proc/{pid}/fd"):
        try:
            found.append((int(number), os.readlink(f"/proc/{pid}/fd/{number}")))
        except FileNotFoundError:
            return []  # it opens and closes files at this moment
    if any(name.startswith(READ_AT_START) for _, name in found):
        return []
    return sorted(found)


def test_the_started_process_has_nothing_of_roots(attacked: Attacked) -> None:
    with attacked.begin(attacked.grant()) as asking:
        assert asking.stdout is not None
        assert asking.stdout.readline() == "begun\n"
        pid = eventually(lambda: processes_of(ANA))[0]
        eventually(lambda: b"user_fork_server" in read(f"/proc/{pid}/cmdline"))
        with open(f"/proc/{pid}/status") as file:
            status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
        assert status["Uid"].split() == status["Gid"].split() == [str(ANA)] * 4
        assert status["Groups"].split() == [str(ANA)] and status["NoNewPrivs"] == "1"
        assert {int(status[name], 16) for name in ("CapPrm", "CapEff", "CapInh", "CapAmb")} == {0}
        assert int(status["SigBlk"], 16) == 0
        names = eventually(lambda: files_of_started_python(pid))
        of_root = [name for number, name in names if number > 3 and name.startswith("/")]
        assert [name for _, name in names[:3]] == ["/dev/null"] * 3 and not of_root, names
        variables = {one.split(b"=")[0] for one in read(f"/proc/{pid}/environ").split(b"\0")[:-1]}
        assert variables == {b"USER", b"LOGNAME", b"HOME", b"PATH", b"SHELL"}
        assert os.readlink(f"/proc/{pid}/cwd") == "/"
        asking.kill()
        asking.communicate()
    eventually(attacked.is_idle)


def read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def state_of(pid: int) -> str:
    """Return the letter of a process's state, which is `Z` for a process that has ended and was not
    reaped; "" if there is no such process.
    """
    return read(f"/proc/{pid}/stat").rpartition(b")")[2].decode().lstrip()[:1]


def children(pid: int) -> list[int]:
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            fields = read(f"/proc/{name}/stat").rpartition(b")")[2].split()
            if fields and int(fields[1]) == pid:
                found.append(int(name))
    return found


def ids_below(pid: int) -> set[int]:
    """Return the user ids of all processes below `pid`."""
    found: set[int] = set()
    for child in children(pid):
        for line in read(f"/proc/{child}/status").splitlines():
            if line.startswith(b"Uid:"):
                found |= {int(one) for one in line.split()[1:]}
        found |= ids_below(child)
    return found


def test_many_that_connect_and_say_nothing_hold_up_nobody_for_long(attacked: Attacked) -> None:
    """Root's program handles each silent connection in a process of its own, for at most five
    seconds.
    """
    code = (
        "import socket, sys\n"
        "held = [socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(40)]\n"
        "for one in held: one.connect(sys.argv[1])\n"
        "print('held', flush=True)\n"
        "for one in held: assert one.recv(100) == b''\n"
    )
    with attacked.machine.begin(NODE_USER, sys.executable, "-c", code, f"{RUN}/socket") as silent:
        assert silent.stdout is not None
        assert silent.stdout.readline() == "held\n"
        assert attacked.told(attacked.grant()) == "begun"
        _, err = silent.communicate(timeout=60)
        assert silent.returncode == 0, err
    eventually(attacked.is_idle)
