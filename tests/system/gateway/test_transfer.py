"""Objects from one node's shared memory into another's, over two real gateways."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import mmap
import os
import secrets
import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phalanx.errors import ProtocolError
from phalanx.objects.names import spare_file
from phalanx.protocol.gateway_messages import CancelPull, Pull, Pulled, ReleaseFile
from phalanx.runtime.gateway.chunks import CHUNK_BYTES, decode_get, encode_get
from phalanx.runtime.gateway.object_files import is_object_name

_counts = itertools.count(1)


def put(node, size, directory=None):
    """Write a new object on the node; return (name, digest)."""
    name = f"{secrets.token_hex(16)}-{next(_counts)}"
    piece = os.urandom(min(size, 1 << 20))
    digest = hashlib.blake2b()
    with open(os.path.join(directory or node.session.shared, name), "wb") as file:
        left = size
        while left:
            piece = piece[1:] + piece[:1]  # no two chunks are the same
            digest.update(piece[:left])
            left -= file.write(piece[:left])
    return name, digest.digest()


def digest_of(node, name):
    digest = hashlib.blake2b()
    path = os.path.join(node.session.shared, name)
    assert os.stat(path).st_mode & 0o777 == 0o600
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.digest()


def pull(node, name, size, *sources):
    node.channel.send(Pull(name, size, [source.prefix.hex() for source in sources]))
    result = node.wait_for(Pulled)
    assert result.name == name
    return result


def parts(node):
    return [name for name in os.listdir(node.session.shared) if name.endswith(".part")]


SIZES = [0, 1, 4096, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 5 * CHUNK_BYTES + 7, 256 << 20]


def test_every_size_arrives_whole(start):
    here, there = start()
    for size in SIZES:
        name, digest = put(there, size)
        result = pull(here, name, size, there)
        assert (result.ok, result.reason, result.size) == (True, "", size)
        assert digest_of(here, name) == digest
        for node in (here, there):
            os.unlink(os.path.join(node.session.shared, name))
    assert parts(here) == []


def lose(node, name):
    """Remove the copy from the node, which keeps the file for the next copy; return the file's
    inode.
    """
    shared = node.session.shared
    os.rename(os.path.join(shared, name), spare := os.path.join(shared, spare_file(name)))
    return os.stat(spare).st_ino


def pull_over(node, name, size, source, spare):
    node.channel.send(Pull(name, size, [source.prefix.hex()], spare=spare))
    result = node.wait_for(Pulled)
    assert (result.name, result.ok, result.reason) == (name, True, "")


@pytest.mark.parametrize("size", [2 * CHUNK_BYTES, 2 * CHUNK_BYTES - 5, CHUNK_BYTES, 1 << 20])
def test_a_copy_that_nobody_has_is_written_over(start, size):
    here, there = start()
    old, _ = put(there, 2 * CHUNK_BYTES)
    assert pull(here, old, 2 * CHUNK_BYTES, there).ok
    inode = lose(here, old)
    for _ in range(2):  # its file, and then what came into it
        name, digest = put(there, size)
        pull_over(here, name, size, there, old)
        assert digest_of(here, name) == digest
        assert os.stat(os.path.join(here.session.shared, name)).st_ino == inode
        assert lose(here, name) == inode
        old = name


@pytest.mark.parametrize("how", ["open", "mapped", "unknown", "larger"])
def test_a_copy_that_somebody_reads_or_that_does_not_serve_goes_instead(start, how):
    here, there = start()
    old, digest = put(there, CHUNK_BYTES)
    assert pull(here, old, CHUNK_BYTES, there).ok
    size = CHUNK_BYTES + (how == "larger")
    with contextlib.ExitStack() as stack:
        if how in ("open", "mapped"):
            file = stack.enter_context(open(os.path.join(here.session.shared, old), "rb"))
            view = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
            if how == "mapped":
                file.close()
        elif how == "unknown":
            here.channel.send(ReleaseFile(old))
        inode = lose(here, old)
        name, fresh = put(there, size)
        pull_over(here, name, size, there, old)
        assert digest_of(here, name) == fresh
        assert os.stat(os.path.join(here.session.shared, name)).st_ino != inode
        if how in ("open", "mapped"):
            assert hashlib.blake2b(view).digest() == digest
    assert not os.path.exists(os.path.join(here.session.shared, spare_file(old)))


def test_a_spare_copy_is_deleted_where_it_is_not_needed(start):
    here, there = start()
    old, _ = put(there, CHUNK_BYTES)
    assert pull(here, old, CHUNK_BYTES, there).ok
    lose(here, old)
    name, digest = put(here, 10)  # it is here already
    pull_over(here, name, 10, there, old)
    with open(os.path.join(here.session.shared, name), "rb") as file:
        assert hashlib.blake2b(file.read()).digest() == digest
    assert not os.path.exists(os.path.join(here.session.shared, spare_file(old)))


def test_a_spilled_object_comes_from_disk_and_one_that_is_here_from_nowhere(start):
    here, there = start()
    name, digest = put(there, 10_000, there.session.spill)
    assert pull(here, name, 10_000, there).ok
    assert digest_of(here, name) == digest
    again = pull(here, name, 10_000, there)
    assert (again.ok, again.size) == (True, 0)


def test_commands_for_one_object_are_one_transfer(start):
    here, there = start()
    name, digest = put(there, 64 << 20)
    for _ in range(5):
        here.channel.post(Pull(name, 64 << 20, [there.prefix.hex()]))
    small, _ = put(there, 5)
    here.channel.send(Pull(small, 5, [there.prefix.hex()]))
    results = [here.wait_for(Pulled), here.wait_for(Pulled)]
    assert {result.name for result in results} == {name, small}
    assert all(result.ok for result in results)
    assert digest_of(here, name) == digest


def test_the_next_node_is_asked_when_one_cannot_give_it(start):
    here, empty, there = start(3)
    name, digest = put(there, 20 << 20)
    gone = type("Gone", (), {"prefix": b"\x01" * 6})
    assert pull(here, name, 20 << 20, gone, empty, there).ok
    assert digest_of(here, name) == digest
    refused = pull(here, f"{'0' * 32}-1", 10, gone, empty)
    assert not refused.ok
    assert "no node 010101010101 is known" in refused.reason
    assert f"node {empty.prefix.hex()}: it does not have the object any more" in refused.reason


def test_commands_that_cannot_be_obeyed_say_why(start):
    here, there = start()
    name, _ = put(there, 100)
    for command, reason in [
        (Pull("../token", 5, [there.prefix.hex()]), "no name of an object"),
        (Pull(name, 100, []), "no node is known"),
        (Pull(name, 99, [there.prefix.hex()]), "100 bytes there, where 99"),
        (Pull(name, 1 << 60, [there.prefix.hex()]), "do not fit into this node's shared memory"),
    ]:
        here.channel.send(command)
        result = here.wait_for(Pulled)
        assert not result.ok
        assert reason in result.reason
        assert not result.may_pass
    assert os.listdir(here.session.shared) == []
    assert pull(here, name, 100, there).ok, "and the next one is served"


@pytest.mark.parametrize("how", ["killed", "cancelled"])
def test_a_transfer_that_ends_in_the_middle_leaves_nothing(start, how):
    here, there = start()
    name, _ = put(there, 64 << 20)
    assert pull(here, name, 64 << 20, there).ok  # connections are kept from now on
    os.unlink(os.path.join(here.session.shared, name))
    there.process.send_signal(signal.SIGSTOP)  # in the middle: nothing more comes
    here.channel.send(Pull(name, 64 << 20, [there.prefix.hex()]))
    if how == "killed":
        there.process.kill()
        there.is_killed = True
    else:
        here.channel.send(CancelPull(name))
    result = here.wait_for(Pulled)
    assert not result.ok
    assert result.reason
    assert result.may_pass == (how == "killed")
    assert os.listdir(here.session.shared) == []
    if how == "cancelled":
        there.process.send_signal(signal.SIGCONT)
        assert pull(here, name, 64 << 20, there).ok


@given(st.text(max_size=60))
def test_only_names_of_objects_are_names(name):
    legal = set("0123456789abcdef-")
    if is_object_name(name):
        assert set(name) <= legal and name.isascii()
    assert not is_object_name(name + "/") and not is_object_name("../" + name)
    assert not is_object_name(name + ".part") and not is_object_name(name + "\n")


@given(st.binary(min_size=69, max_size=69))
def test_a_request_is_read_or_refused(raw):
    try:
        name, offset, length = decode_get(raw)
    except ProtocolError:
        return
    assert is_object_name(name)
    assert encode_get(name, offset, length) == raw


def test_what_memory_cannot_hold_comes_to_disk(start):
    here, there = start()
    name, digest = put(there, 10_000)
    here.channel.send(Pull(name, 10_000, [there.prefix.hex()], on_disk=True))
    assert here.wait_for(Pulled).ok
    assert os.listdir(here.session.spill) == [name]
    assert not os.path.exists(os.path.join(here.session.shared, name))
    with open(os.path.join(here.session.spill, name), "rb") as file:
        assert hashlib.blake2b(file.read()).digest() == digest
