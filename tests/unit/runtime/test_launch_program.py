"""Root's program: its check of signatures, compared with RFC 8032 and another library, and its
check of grants.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import socket
import threading
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from phalanx.model.ids import GangId, GroupId, JobId
from phalanx.runtime.daemons import cluster_token
from phalanx.runtime.head import signing
from phalanx.runtime.head.signing import SignedGrants
from phalanx.runtime.launch import program
from phalanx.runtime.launch.program import Options, RefusedError
from phalanx.runtime.node import account_shares
from phalanx.runtime.os import account_doors, command_groups

VECTORS = [
    (
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b4"
        "6bd25bf5f0595bbe24655141438e7a100b",
    ),
    (
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d"
        "8c387b2eaeb4302aeeb00d291612bb0c00",
    ),
    (
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6"
        "594a7c15e9716ed28dc027beceea1ec40a",
    ),
]
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
PUBLIC = KEY.public_key().public_bytes_raw()
JOB = JobId("default/j")
NOW = 1_800_000_000.0


@pytest.mark.parametrize(("key", "message", "signature"), VECTORS)
def test_the_vectors_of_the_standard(key: str, message: str, signature: str) -> None:
    said = bytes.fromhex(key), bytes.fromhex(message), bytes.fromhex(signature)
    assert program.is_signed(*said)
    assert not program.is_signed(said[0], said[1] + b"x", said[2])


@given(st.binary(max_size=200), st.integers(0, 511), st.binary(min_size=32, max_size=32))
def test_another_librarys_signatures_hold_and_changed_ones_do_not(
    message: bytes, bit: int, seed: bytes
) -> None:
    key = Ed25519PrivateKey.from_private_bytes(seed)
    public, signature = key.public_key().public_bytes_raw(), bytearray(key.sign(message))
    assert program.is_signed(public, message, bytes(signature))
    signature[bit // 8] ^= 1 << bit % 8
    assert not program.is_signed(public, message, bytes(signature))


@given(st.binary(max_size=100), st.binary(max_size=100), st.binary(max_size=100))
def test_no_bytes_make_the_check_fail_otherwise(key: bytes, message: bytes, signed: bytes) -> None:
    assert not program.is_signed(key, message, signed)
    assert not program.is_signed(key[:32].ljust(32, b"\1"), message, signed[:64].ljust(64, b"\2"))


def options(tmp_path: Path) -> Options:
    return Options(1001, "m1", PUBLIC, ["/bin/false"], str(tmp_path), "")


def test_grants_of_the_head_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Account:
        pw_uid = 4321

    monkeypatch.setattr(pwd, "getpwnam", lambda name: Account)
    keys = tmp_path / "keys"
    made = SignedGrants(str(keys), lambda: NOW).grant("ana", JOB, 3, "m1", (0, 5))
    public = bytes.fromhex((keys / "launch.pub").read_text())
    here = Options(1001, "m1", public, ["/bin/false"], str(tmp_path), "")
    read = program.read_grant(made.signed, here, NOW)
    assert (made.uid, made.refusal) == (4321, "")
    assert read[1:7] == ("ana", 4321, JOB, 3, "m1", [0, 5])
    assert oct((keys / "launch.key").stat().st_mode & 0o777) == "0o600"
    again = SignedGrants(str(keys), lambda: NOW).grant("ana", JOB, 3, "m1", ())
    assert program.read_grant(again.signed, here, NOW).nonce != read.nonce
    with pytest.raises(RefusedError):
        program.read_grant(made.signed, here._replace(node="m2"), NOW)
    with pytest.raises(RefusedError):
        program.read_grant(made.signed, here, NOW + signing.VALID_S)
    with pytest.raises(RefusedError):
        program.read_grant(made.signed, here, NOW - 3600)


def test_the_head_grants_nobody_else(tmp_path: Path) -> None:
    grants = SignedGrants(str(tmp_path / "keys"))
    for user, why in (("no-such-account", "has no account"), ("root", "of the machine itself")):
        made = grants.grant(user, JOB, 1, "m1", ())
        assert not made.signed and why in made.refusal


def test_a_gang_has_one_secret_and_no_other_gang_has_it(tmp_path: Path) -> None:
    grants, gang = SignedGrants(str(tmp_path / "keys")), GangId(GroupId(b"g" * 18))
    secret = grants.secret("ana", JOB, gang)
    assert SignedGrants(str(tmp_path / "keys")).secret("ana", JOB, gang) == secret
    others = {
        grants.secret("bo", JOB, gang),
        grants.secret("ana", JobId("default/k"), gang),
        grants.secret("ana", JOB, GangId(GroupId(b"h" * 18))),
        SignedGrants(str(tmp_path / "other")).secret("ana", JOB, gang),
    }
    assert len(others) == 4 and secret not in others
    path = tmp_path / "token"
    path.write_text(secret)
    path.chmod(0o600)
    assert len(cluster_token.read(str(path))) == 32


def test_a_key_that_others_may_read_is_refused(tmp_path: Path) -> None:
    SignedGrants(str(tmp_path))
    os.chmod(tmp_path / "launch.key", 0o640)
    with pytest.raises(PermissionError, match="open to other users"):
        SignedGrants(str(tmp_path))


def grant(expires: int, nonce: str = "0" * 32) -> program.Grant:
    return program.Grant(1, "ana", 4321, "default/j", 1, "m1", [], expires, nonce)


def test_a_grant_is_used_once_whatever_the_clock_does(tmp_path: Path) -> None:
    used = str(tmp_path)
    now = int(NOW)
    program.use_up(grant(now + 60), used)
    program.use_up(grant(now + 60, "1" * 32), used)
    with pytest.raises(RefusedError, match="before"):
        program.use_up(grant(now + 60), used)
    program.forget_old(used, now + 60 + program.KEPT_S)
    assert len(os.listdir(used)) == 2, "it is remembered for as long as it is said"
    program.forget_old(used, now + 61 + program.KEPT_S)
    assert os.listdir(used) == [f"floor-{now + 60}"]
    for nonce in ("0" * 32, "2" * 32):
        with pytest.raises(RefusedError, match="older than the oldest remembered"):
            program.use_up(grant(now + 60, nonce), used)
    program.use_up(grant(now + 61), used)
    program.forget_old(used, now + 10 * program.KEPT_S)
    assert os.listdir(used) == [f"floor-{now + 61}"]


def test_fields_of_other_kinds_are_refused(tmp_path: Path) -> None:
    fields = grant(int(NOW) + 60)._asdict()
    body = json.dumps(fields).encode()
    assert program.read_grant(KEY.sign(body) + body, options(tmp_path), NOW).uid == 4321
    wrong = [{"uid": value} for value in (0, 999, -1, 1001, 2**32 - 1, 2**64, 4321.0, "4321", None)]
    wrong += [{"devices": "0"}, {"attempt": True}, {"job": 1}, {"v": 1.0}, {"nonce": "A" * 32}]
    for change in wrong:
        body = json.dumps(fields | change).encode()
        with pytest.raises(RefusedError):
            program.read_grant(KEY.sign(body) + body, options(tmp_path), NOW)


class Guarded:
    """Runs the part of root's program that follows a node, in a thread. The test has the node's
    ends of the sockets.
    """

    def __init__(self, tmp_path: Path, node_uid: int) -> None:
        self.kept = str(tmp_path)
        other, self.door = account_doors.listen(self.kept, 4321)
        other.close()
        self.door.setblocking(False)
        self.end, self.ended = os.pipe()  # a pipe ends as the descriptor of a process does
        self.node, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.nodes = [theirs]
        self.result: list[bool] = []
        self.thread = threading.Thread(target=self._follow, args=(node_uid,))
        self.thread.start()

    def _follow(self, node_uid: int) -> None:
        self.result.append(program.follow(self.nodes, [self.door], self.end, node_uid))

    def finish(self) -> bool:
        self.thread.join(60)
        for one in (self.door, self.node, *self.nodes):
            one.close()
        return self.result[0]


def test_through_its_door_the_nodes_next_process_ends_what_runs(tmp_path: Path) -> None:
    guarded = Guarded(tmp_path, os.getuid())
    guarded.node.close()
    with account_doors.connect_to_door(guarded.kept, 4321):
        pass  # it only looks whether somebody answers
    with account_doors.connect_to_door(guarded.kept, 4321) as door:
        door.send(account_doors.END)
        assert not guarded.finish()
        assert door.recv(1) == b"", "the connection ends when everything has ended"
    os.close(guarded.ended)


def test_another_account_orders_nothing_through_a_door(tmp_path: Path) -> None:
    guarded = Guarded(tmp_path, os.getuid() + 1)
    door = account_doors.connect_to_door(guarded.kept, 4321)
    with door, contextlib.suppress(ConnectionError):  # closed before the order was sent, or read
        door.send(account_doors.END)
        door.setblocking(True)
        assert door.recv(1) == b"", "it is closed"
    assert guarded.thread.is_alive()
    os.close(guarded.ended)
    assert guarded.finish(), "the program has ended by itself"


def test_a_door_of_another_kind_is_refused(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    stream, door = account_doors.listen(str(tmp_path), 4321)
    quiet = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs, stream, door, quiet, socket.socket() as tcp:
        tcp.listen()
        for wrong in (ours, stream, quiet, tcp):
            socket.send_fds(ours, [b"grant"], [stream.fileno(), wrong.fileno()])
            with pytest.raises(RefusedError, match="no door"):
                program.receive(theirs)
        socket.send_fds(ours, [b"grant"], [stream.fileno(), door.fileno()])
        data, sockets = program.receive(theirs)
        assert data == b"grant" and len(sockets) == 2
        for one in sockets:
            one.close()


def test_the_program_and_the_node_mean_the_same_groups() -> None:
    """Root's program imports nothing of Phalanx, so it defines these names a second time."""
    assert program.DAEMONS == command_groups.DAEMONS
    assert program.MOST_PROCESSES == command_groups.MOST_PROCESSES
    assert program.GROUPS_FILE == account_shares.GROUPS_FILE


def group_files(group: Path, *names: str) -> None:
    """Make a control group that has these files of the kernel."""
    group.mkdir(parents=True, exist_ok=True)
    for name in ("cgroup.procs", "cgroup.threads", "cgroup.subtree_control", *names):
        (group / name).write_text("")


def test_an_account_gets_a_group_with_limits(tmp_path: Path) -> None:
    uid = os.getuid()
    group = tmp_path / f"account-{uid}"
    daemons = group / program.DAEMONS
    limits = ("pids.max", "cgroup.max.descendants", "cpu.weight", "cpuset.cpus")
    group_files(group, *limits)
    group_files(daemons)
    program.enter_group(str(tmp_path), uid, uid)
    assert (daemons / "cgroup.procs").read_text() == "0"
    assert 0 < int((group / "pids.max").read_text()) <= program.MOST_PROCESSES
    assert (group / "cgroup.max.descendants").read_text() == str(program.MOST_GROUPS)
    program.leave_group(str(tmp_path), uid)
    assert group.is_dir(), "files of a kernel go with their directory, and these do not"


def test_a_process_that_cannot_enter_its_group_does_not_begin(tmp_path: Path) -> None:
    with pytest.raises(OSError):
        program.enter_group(str(tmp_path), os.getuid(), os.getuid())


def test_the_processes_of_a_unit_make_room_for_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "check_trusted", lambda path: None)
    group_files(tmp_path / program.DAEMONS)
    group_files(tmp_path)
    (tmp_path / "cgroup.procs").write_text("12345\n")
    assert program.find_groups(str(tmp_path)) == str(tmp_path)
    assert (tmp_path / program.DAEMONS / "cgroup.procs").read_text() == "12345"
    assert "+cpuset" in (tmp_path / "cgroup.subtree_control").read_text()
    assert program.find_groups(str(tmp_path / "none")) == ""


def test_a_group_that_others_can_change_is_refused(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(PermissionError):
        program.find_groups(str(tmp_path / "open"))
