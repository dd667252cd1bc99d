"""Pages of deleted objects are used again, but no reader ever sees the bytes of its object
change.
"""

from __future__ import annotations

import gc
import os
import random
import socket
import subprocess
import sys
from typing import Any

import pytest
from tests.unit.objects.memory_node import MIB, Node

from phalanx.runtime.os import shared_memory
from phalanx.runtime.os.file_leases import mark_sent
from phalanx.runtime.os.shared_memory import _KEEP_FILES


@pytest.fixture
def node(tmp_path):
    return Node(tmp_path)


def test_pages_that_nobody_saw_are_used_again(node):
    name, hold = node.write(1)
    del hold
    other, _kept = node.write(2)
    assert node.files() == [other] != [name]
    assert node.granted < 2 * MIB
    assert bytes(node.read(other)[1][:3]) == b"\2\2\2"


def test_pages_that_somebody_reads_are_not(node):
    name, hold = node.write(1)
    _, view = node.read(name)
    hold.seen = True
    del hold
    other, _kept = node.write(2)
    assert bytes(view[:3]) == b"\1\1\1"
    assert bytes(node.read(other)[1][:3]) == b"\2\2\2"
    assert ("kept", name) in node.log


def test_pages_that_another_process_maps_are_used_again_once_it_is_gone(node):
    node.store._credit = 16 * MIB  # without, what is kept goes for the sake of the next
    name, hold = node.write(1)
    reading = """
import mmap, os, sys
mapped = mmap.mmap(os.open(sys.argv[1], os.O_RDONLY), 0, prot=mmap.PROT_READ)
print(flush=True)
input()
print(mapped[-4096])
"""
    arguments = [sys.executable, "-c", reading, os.path.join(node.shared, name)]
    pipe = subprocess.PIPE
    with subprocess.Popen(arguments, stdin=pipe, stdout=pipe) as reader:
        assert reader.stdin is not None and reader.stdout is not None
        assert reader.stdout.readline() == b"\n"
        inode = os.stat(os.path.join(node.shared, name)).st_ino
        hold.seen = True
        del hold
        other, kept = node.write(2)
        assert os.stat(os.path.join(node.shared, other)).st_ino != inode
        reader.stdin.write(b"\n")
        reader.stdin.close()
        assert reader.stdout.read() == b"1\n"
    del kept
    node.write(3)
    third, _kept = node.write(4)
    assert inode in [os.stat(os.path.join(node.shared, one)).st_ino for one in node.files()]
    assert bytes(node.read(third)[1][:3]) == b"\4\4\4"


def test_what_a_forked_child_reads_stays(node):
    """The child has the reader's mapping, and shares its open file."""
    name, hold = node.write(1)
    hold.seen = True
    _, view = node.read(name)
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(theirs)
        os.read(ours, 1)
        os._exit(view[0])
    os.close(ours)
    del hold, view
    node.write(2)
    node.write(3)
    os.close(theirs)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1


def test_pages_that_a_reader_has_let_go_of_are_used_again(node):
    name, hold = node.write(1)
    inode = os.stat(os.path.join(node.shared, name)).st_ino
    hold.seen = True
    mapping, view = node.read(name)
    del hold, mapping, view
    other, _kept = node.write(2)
    assert node.files() == [other] != [name]
    assert os.stat(os.path.join(node.shared, other)).st_ino == inode
    assert ("sealed", other) in node.log


def test_what_is_kept_and_watched_no_more_is_let_go(node, monkeypatch):
    """A file is no longer watched after many others were written, so it cannot be told whether the
    file is still read.
    """
    monkeypatch.setattr(node.store, "_most_watched", 4)
    name, hold = node.write(1, 3 * MIB)
    hold.seen = True
    del hold
    held = [node.write(2, 50_000) for _ in range(6)]
    assert ("returned", name, 0) in node.log
    other, _kept = node.write(3, 3 * MIB)
    assert bytes(node.read(other)[1][:3]) == b"\3\3\3"
    assert len(held) == 6


def test_what_was_sent_to_another_node_is_not_written_over(node):
    """The pages may still wait in a socket's queue, where no lease on the file detects them."""
    node.store._credit = 16 * MIB  # without, what is kept goes for the sake of the next
    name, hold = node.write(1)
    inode = os.stat(os.path.join(node.shared, name)).st_ino
    ours, theirs = socket.socketpair()
    with ours, theirs:
        with open(os.path.join(node.shared, name), "rb") as sent:
            mark_sent(sent.fileno())
            count = os.sendfile(ours.fileno(), sent.fileno(), MIB // 2, 4096)
        hold.seen = True
        del hold
        other, _kept = node.write(2)
        assert os.stat(os.path.join(node.shared, other)).st_ino != inode
        assert theirs.recv(count) == b"\1" * count


def test_who_opens_a_file_while_it_is_asked_about_ends_nobody(tmp_path):
    """When the file is opened, the kernel sends a signal to the process that has a lease on it. By
    default this signal ends a process.
    """
    program = """
import fcntl, os, sys
from phalanx.runtime.os import file_leases
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o600)
really = fcntl.fcntl
def asked(fd, command, value=0):
    found = really(fd, command, value)
    if command == fcntl.F_SETLEASE and value == fcntl.F_WRLCK:
        child = os.fork()
        if child == 0:
            try:
                os.open(sys.argv[1], os.O_RDONLY | os.O_NONBLOCK)
            finally:
                os._exit(0)
        os.waitpid(child, 0)
    return found
fcntl.fcntl = asked
print(file_leases.is_ours_alone(fd))
"""
    arguments = [sys.executable, "-c", program, str(tmp_path / "file")]
    done = subprocess.run(arguments, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (0, b"True\n"), done.stderr


@pytest.mark.parametrize("why", ["no leases", "no descriptor", "too large"])
def test_what_may_be_read_and_cannot_be_asked_about_is_not_used_again(node, monkeypatch, why):
    if why == "no leases":
        monkeypatch.setattr(shared_memory, "is_ours_alone", lambda fd: False)
    elif why == "no descriptor":
        monkeypatch.setattr(node.store, "_most_watched", 0)
    else:
        monkeypatch.setattr(shared_memory, "_KEEP_READ_BYTES", MIB)
    name, hold = node.write(1)
    with open(os.path.join(node.shared, name), "rb") as reader:
        hold.seen = True
        del hold
        node.write(2)
        assert reader.read()[-4096] == 1
    assert name not in node.files()


def test_what_a_finalizer_has_saved_is_still_seen(node):
    """The garbage collector clears weak references to unreachable objects before it runs
    finalizers. A finalizer may then make an object reachable again.
    """
    saved = []

    class Reader:
        def __init__(self, view):
            self.view, self.itself = view, self

        def __del__(self):
            saved.append(self.view)

    name, hold = node.write(1)
    hold.seen = True
    _, view = node.read(name)
    Reader(view)
    del hold, view
    gc.collect()
    node.write(2)
    assert bytes(saved[0][:3]) == b"\1\1\1"


def test_random_lives_never_change_what_a_reader_sees(node):
    source = random.Random(7)
    alive: dict[Any, Any] = {}
    readers = []
    hold = None
    for step in range(400):
        action = source.randrange(4)
        if action == 0 or not alive:
            value = step % 251
            name, hold = node.write(value, source.choice([5000, 60_000, MIB]))
            alive[name] = (value, hold)
            hold = None
            continue
        name = source.choice(sorted(alive))
        value, hold = alive[name]
        if action == 1:
            hold.seen = True
            _, view = node.read(name)
            readers.append((value, view))
        elif action == 2 and os.path.exists(os.path.join(node.shared, name)):
            node.do_spill(name)
        else:
            del alive[name]
        hold = None
        for expected, view in readers[-20:]:
            assert view[0] == view[-1] == expected
    for name in alive:
        assert bytes(node.read(name)[1][:1]) == bytes([alive[name][0]])
    del hold
    alive.clear()
    node.store.collect()
    node.store.trim()
    assert (node.files(), os.listdir(node.spill)) == ([], [])
    sealed = [e[1] for e in node.log if e[0] == "sealed"]
    gone = [e[1] for e in node.log if e[0] == "returned"]
    assert sorted(sealed) == sorted(gone), "the node hears of each end once"


def test_only_so_many_files_are_kept(node):
    holds = [node.write(i)[1] for i in range(_KEEP_FILES + 4)]
    holds.clear()
    node.store.collect()
    assert len(node.files()) == _KEEP_FILES
    node.store.trim()
    assert node.files() == []


def test_a_file_that_was_spilled_while_it_was_kept_is_not_used(node):
    name, hold = node.write(1)
    del hold
    node.store.collect()
    os.rename(os.path.join(node.shared, name), os.path.join(node.spill, name))
    other, _kept = node.write(2)
    assert bytes(node.read(other)[1][:1]) == b"\2"
    assert os.listdir(node.spill) == []
    assert ("returned", name, 0) in node.log


def test_an_object_handed_over_stays_when_its_writer_forgets_it(node):
    name, hold = node.write(1)
    hold.hand_over()
    del hold
    node.store.collect()
    assert node.files() == [name]


def test_a_file_that_its_new_owner_gives_back_is_written_again(node):
    name, hold = node.write(1)
    inode = os.stat(os.path.join(node.shared, name)).st_ino
    hold.hand_over()
    node.store.give_back(name)
    other, _kept = node.write(2)
    assert node.files() == [other] != [name]
    assert os.stat(os.path.join(node.shared, other)).st_ino == inode
    assert bytes(node.read(other)[1][:3]) == b"\2\2\2"


def test_a_file_that_comes_back_late_is_deleted(node, monkeypatch):
    """By then the writer has unmapped the file, because it needed memory or because it wrote many
    files afterwards.
    """
    monkeypatch.setattr(shared_memory, "_HANDED_FILES", 2)
    names = []
    for value in range(3):
        name, hold = node.write(value)
        hold.hand_over()
        names.append(name)
    node.store.unmap_spilled([names[2]])
    for name in (names[0], names[2]):
        node.store.give_back(name)
        assert node.log[-1] == ("returned", name, 0)
    assert node.files() == [names[1]]


def test_an_owner_gives_back_what_another_process_wrote(node):
    name, written = node.write(1)
    written.hand_over()
    hold = node.store.hold(name, MIB)
    _, view = node.read(name)
    del hold
    node.store.collect()
    assert (node.log[-1], name in node.files()) == (("given back", name), True)
    assert view[0] == 1


def test_what_is_given_back_and_read_still_is_not_written_over(node):
    name, hold = node.write(1)
    hold.hand_over()
    _, view = node.read(name)
    node.store.give_back(name)
    node.write(2)
    assert bytes(view[:3]) == b"\1\1\1"


def test_what_is_opened_in_the_last_moment_is_not_written_over(node, monkeypatch):
    """The file is opened between the check whether it is read and the removal of its name."""
    name, hold = node.write(1)
    hold.seen = True
    del hold
    node.store.collect()
    readers = []
    really_rename = os.rename

    def rename_late(path, to):
        readers.append(node.read(name)[1])
        monkeypatch.setattr("phalanx.runtime.os.shared_memory.os.rename", really_rename)
        really_rename(path, to)

    monkeypatch.setattr("phalanx.runtime.os.shared_memory.os.rename", rename_late)
    other, _kept = node.write(2)
    assert [bytes(view[:3]) for view in readers] == [b"\1\1\1"]
    assert node.files() == [other]
    assert ("returned", name, 0) in node.log
