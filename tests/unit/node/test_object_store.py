"""A node's object store: capacity, the memory that writers may use (credit), spilling, and writers
that died.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from phalanx.errors import ObjectStoreFullError, OutOfDiskError
from phalanx.model.system_settings import SystemSettings
from phalanx.node.known_jobs import KnownJobs
from phalanx.node.object_store import ObjectStore
from phalanx.node.peers import Peers
from phalanx.objects.names import spare_file
from phalanx.protocol.gateway_messages import Pulled
from phalanx.protocol.node_messages import GivenBack, Spilled
from phalanx.runtime.node.object_files import SessionFiles, ThreadedSpill
from phalanx.runtime.os import session as sessions
from phalanx.runtime.os.loop import Loop

MIB = 1 << 20
CAPACITY = 256 * MIB


class Writer:
    """The connection of a writer, with the messages that it was sent."""

    peer = b"a"
    tag = "worker"

    def __init__(self):
        self.told = []

    def post(self, message):
        self.told.append(message)


@pytest.fixture
def session(tmp_path):
    session = sessions.Session(
        name="s",
        directory=str(tmp_path / "disk"),
        shared=str(tmp_path / "memory"),
        spill=str(tmp_path / "disk" / "spill"),
        disk=str(tmp_path / "disk" / "disk"),
    )
    for path in (session.directory, session.spill, session.shared):
        os.mkdir(path)
    return session


@pytest.fixture
def writer():
    return Writer()


class Disk(ThreadedSpill):
    """Copies immediately, or, if `is_slow`, when `finish` is called."""

    def __init__(self, session):
        super().__init__(session, call=lambda wanted: wanted())
        self.is_slow = False
        self.failure = None
        self.begun = []

    def copy(self, names, copied):
        self.begun.append((names, copied))
        if not self.is_slow:
            self.finish()

    def finish(self):
        names, copied = self.begun.pop(0)
        copied([self.failure or self.copy_one(name) for name in names])


class Gateway:
    """Copies other nodes' objects when the test says so."""

    def __init__(self, session):
        self.session = session
        self.under_way = {}
        """Name -> whether the copy goes to disk."""
        self.gone = []

    def pull(self, name, size, nodes, on_disk, spare):
        self.under_way[name] = on_disk
        if spare:  # as the gateway does
            shared = self.session.shared
            os.rename(os.path.join(shared, spare_file(spare)), os.path.join(shared, name))

    def release_file(self, name):
        self.gone.append(name)


@pytest.fixture
def disk(session):
    return Disk(session)


@pytest.fixture
def gateway(session):
    return Gateway(session)


@pytest.fixture
def store(session, writer, disk, gateway):
    peers = Peers()
    peers.add(writer)
    links: Any = SimpleNamespace(
        prefix=b"a", send=lambda prefix, message: None, is_dead=lambda prefix: False
    )
    events: Any = SimpleNamespace(record=lambda kind, **row: None)
    return ObjectStore(
        lambda: 0.0,
        10 * MIB,
        disk=session.spill,
        files=SessionFiles(session),
        spill_files=disk,
        transfers=gateway,
        links=links,
        peers=peers,
        jobs=KnownJobs(SystemSettings()),
        events=events,
    )


def reserve(store, process, size):
    """Return the credit that a writer gets immediately. Raises an error if the store refuses it."""
    ((credit, error),) = reserve_soon(store, process, size)
    if error is not None:
        raise error
    return credit


def reserve_soon(store, process, size):
    """Return a list to which the store's answer is added, now or later."""
    answers = []
    store.reserve(process, size, lambda credit, error: answers.append((credit, error)))
    return answers


def write(store, session, name, size=4 * MIB, process=b"a"):
    reserve(store, process, size)
    with open(os.path.join(session.shared, name), "wb") as file:
        file.write(name.encode() * (size // len(name)))
    store.sealed(name, size, process)


def test_what_does_not_fit_goes_to_disk_and_its_writer_is_told(store, session, writer):
    for name in ("a-1", "a-2", "a-3"):
        write(store, session, name)
    assert os.listdir(session.spill) == ["a-1"]
    assert sorted(os.listdir(session.shared)) == ["a-2", "a-3"]
    assert writer.told == [Spilled(["a-1"])]
    store.dropped("a-1", 0, b"a")
    assert os.listdir(session.spill) == []
    assert store.accounting.counts()["spilled_bytes"] == 0


def test_what_is_only_kept_goes_first_and_not_to_disk(store, session, writer):
    write(store, session, "a-1")
    write(store, session, "a-2")
    store.kept("a-2", b"a")
    assert store.accounting.counts()["objects"] == 1
    write(store, session, "a-3")
    assert (sorted(os.listdir(session.shared)), os.listdir(session.spill)) == (["a-1", "a-3"], [])
    assert writer.told == [Spilled(["a-2"])]


def test_what_was_kept_and_is_in_use_again_is_counted_once(store, session):
    """The writer has renamed the file for a new object before the node hears that the file is
    kept.
    """
    write(store, session, "a-1")
    used_bytes = store.accounting.used_bytes
    os.rename(os.path.join(session.shared, "a-1"), os.path.join(session.shared, "a-2"))
    store.kept("a-1", b"a")
    store.dropped("a-1", 4 * MIB, b"a")
    store.sealed("a-2", 4 * MIB, b"a")
    assert (store.accounting.used_bytes, store.accounting.kept_bytes) == (used_bytes, 0)


def test_what_is_larger_than_the_store_is_refused(store):
    with pytest.raises(ObjectStoreFullError, match=f"{11 * MIB} bytes does not fit"):
        reserve(store, b"a", 11 * MIB)


def test_a_full_disk_says_so_and_keeps_the_object(store, session, disk):
    write(store, session, "a-1", 8 * MIB)
    disk.failure = OSError(28, "No space left on device")
    with pytest.raises(OutOfDiskError, match="No space left"):
        reserve(store, b"a", 8 * MIB)
    assert (os.listdir(session.shared), os.listdir(session.spill)) == (["a-1"], [])


def test_who_waits_for_the_disk_is_served_in_line_while_objects_come_and_go(store, session, disk):
    write(store, session, "a-1", 4 * MIB)
    write(store, session, "a-2", 4 * MIB)
    disk.is_slow = True
    first = reserve_soon(store, b"b", 4 * MIB)
    second = reserve_soon(store, b"c", MIB)
    assert (first, second) == ([], [])
    store.dropped("a-2", 0, b"a")
    store.sealed("b-0", 0, b"b")
    assert (first, second) == ([], []), "it is first in line that was told to wait"
    disk.finish()
    assert [error for _, error in first + second] == [None, None]
    assert os.listdir(session.spill) == ["a-1"]
    assert disk.begun == []


def test_an_object_that_goes_while_it_is_copied_leaves_nothing_on_disk(store, session, disk):
    write(store, session, "a-1", 8 * MIB)
    disk.is_slow = True
    answers = reserve_soon(store, b"b", 8 * MIB)
    store.dropped("a-1", 0, b"a")
    disk.finish()
    assert answers == [(8 * MIB, None)]
    assert os.listdir(session.spill) == []


def test_who_ends_while_it_waits_gets_nothing_and_nobody_waits_for_it(store, session, disk):
    write(store, session, "a-1", 8 * MIB)
    disk.is_slow = True
    dead = reserve_soon(store, b"b", 8 * MIB)
    alive = reserve_soon(store, b"c", MIB)
    store.process_gone(b"b")
    assert alive == []
    disk.finish()
    assert (dead, [error for _, error in alive]) == ([], [None])
    assert store.accounting.used_bytes == alive[0][0]


def test_a_disk_that_fails_fails_one_and_is_tried_again_for_the_next(store, session, disk):
    write(store, session, "a-1", 8 * MIB)
    disk.is_slow = True
    first = reserve_soon(store, b"b", 8 * MIB)
    second = reserve_soon(store, b"c", 8 * MIB)
    disk.failure = OSError(28, "No space left on device")
    disk.finish()
    assert isinstance(first[0][1], OutOfDiskError)
    assert second == []
    disk.failure = None
    disk.finish()
    assert second == [(8 * MIB, None)]


def test_files_are_copied_beside_the_loop(session):
    """The files are copied in a thread, and failures are reported in the loop's thread."""
    loop = Loop(lambda now: None, lambda: None)
    spill = ThreadedSpill(session, loop.call)
    with open(os.path.join(session.shared, "there"), "wb") as file:
        file.write(b"x" * MIB)
    answers, threads = [], []

    def copied(failures):
        answers.append([type(failure) for failure in failures])
        threads.append(threading.get_ident())
        if len(answers) == 2:
            loop.is_stopping = True
        else:
            spill.copy(["there", "nowhere"], copied)

    loop.call(lambda: spill.copy(["there", "nowhere"], copied))
    loop.serve()
    assert answers == [[type(None), FileNotFoundError]] * 2
    assert set(threads) == {threading.get_ident()}
    assert spill.keep_copy("there")
    assert os.listdir(session.shared) == []
    assert Path(session.spill, "there").read_bytes() == b"x" * MIB


def test_an_object_dropped_before_the_node_hears_of_it_is_not_counted(store, session):
    """The messages of the object's owner and of its writer come over different sockets, in any
    order.
    """
    reserve(store, b"a", MIB)
    store.dropped("a-1", 0, b"owner")
    store.sealed("a-1", MIB, b"a")
    assert store.accounting.shared_bytes == 0


def test_an_object_that_is_recycled_while_it_is_copied_leaves_nothing_on_disk(store, session, disk):
    write(store, session, "a-1", 8 * MIB)
    disk.is_slow = True
    reserve_soon(store, b"b", 4 * MIB)
    os.rename(os.path.join(session.shared, "a-1"), os.path.join(session.shared, "a-2"))
    disk.finish()
    store.dropped("a-1", 8 * MIB, b"a")
    store.sealed("a-2", 8 * MIB, b"a")
    assert os.listdir(session.spill) == []
    assert store.accounting.shared_bytes == 8 * MIB


def test_a_dead_writers_objects_go_once_all_have_read_its_last_words(store, session):
    dead, owner = b"\x0d" * 16, b"\x0e" * 16
    for i in range(3):
        write(store, session, f"{dead.hex()}-{i}", MIB, dead)
    store.worker_gone(dead, {owner, b"x"})
    store.settled(dead, b"x")
    assert len(os.listdir(session.shared)) == 3
    store.accounting.claimed(f"{dead.hex()}-1", owner)
    store.settled(dead, owner)
    assert os.listdir(session.shared) == [f"{dead.hex()}-1"]
    store.worker_gone(owner, set())
    assert os.listdir(session.shared) == []
    store.process_gone(dead)
    assert store.accounting.used_bytes == 0


def test_a_reader_that_dies_too_is_not_waited_for(store, session):
    dead = b"\x0d" * 16
    write(store, session, f"{dead.hex()}-0", MIB, dead)
    store.worker_gone(dead, {b"x"})
    store.process_gone(b"x")
    assert os.listdir(session.shared) == []


def test_what_its_owner_drops_is_its_writers_again(store, session, writer):
    name = f"{writer.peer.hex()}-1"
    write(store, session, name, MIB)
    store.claimed(name, b"owner")
    store.given_back(name, b"somebody else")
    assert writer.told == []
    store.given_back(name, b"owner")
    assert (writer.told, store.accounting.kept_bytes) == ([GivenBack(name)], MIB)
    store.owner_gone(b"owner")
    assert os.listdir(session.shared) == [name], "it is the owner's no more"


def test_what_its_owner_drops_before_its_writer_says_that_it_wrote_it(store, session, writer):
    name = f"{writer.peer.hex()}-1"
    reserve(store, writer.peer, MIB)
    (Path(session.shared) / name).touch()
    store.claimed(name, b"owner")
    store.given_back(name, b"owner")
    assert (writer.told, os.listdir(session.shared)) == ([GivenBack(name)], [name])
    store.sealed(name, MIB, writer.peer)
    assert (store.accounting.shared_bytes, store.accounting.kept_bytes) == (0, MIB)
    store.dropped(name, MIB, writer.peer)
    assert (store.accounting.shared_bytes, store.accounting.kept_bytes) == (0, 0)


def test_what_nobody_claimed_is_deleted_when_its_owner_drops_it(store, session, writer):
    write(store, session, "a-1", MIB)
    store.given_back("a-1", b"owner")
    assert (os.listdir(session.shared), store.accounting.shared_bytes) == ([], 0)
    assert writer.told == [Spilled(["a-1"])]


def test_what_is_dropped_is_deleted_when_its_writer_is_gone(store, session):
    write(store, session, "0d-1", MIB, b"dead")
    store.claimed("0d-1", b"owner")
    store.process_gone(b"dead")
    store.given_back("0d-1", b"owner")
    assert (os.listdir(session.shared), store.accounting.used_bytes) == ([], 0)


def test_the_writer_of_what_another_process_drops_lets_go_of_it(store, session, writer):
    write(store, session, "a-1", MIB)
    store.claimed("a-1", b"owner")
    store.dropped("a-1", 0, b"owner")
    assert writer.told == [Spilled(["a-1"])]


# ---- copies of other nodes' objects ------------------------------------------------------------

ELSEWHERE = "0b" * 16
"""The id of a process of another node."""


def arrive(store, gateway, name, size, reason=""):
    session = gateway.session
    directory = session.spill if gateway.under_way.pop(name) else session.shared
    if not reason:
        with open(os.path.join(directory, name), "wb") as file:
            file.truncate(size)
    store.pulled(Pulled(name, not reason, reason, 0 if reason else size, 0.1))


def test_a_copy_takes_its_own_size_and_no_more(store, gateway):
    answers: list[Any] = []
    for i in range(8):
        store.pull(f"{ELSEWHERE}-{i}", MIB, b"a", answers.append, will_map=False)
        arrive(store, gateway, f"{ELSEWHERE}-{i}", MIB)
    assert answers == [""] * 8
    assert store.accounting.used_bytes == 8 * MIB


def test_a_copy_that_does_not_come_leaves_the_others_what_they_were_promised(store, gateway):
    answers: list[Any] = []
    for i in range(3):
        store.pull(f"{ELSEWHERE}-{i}", 2 * MIB, b"a", answers.append)
    arrive(store, gateway, f"{ELSEWHERE}-0", 2 * MIB, reason="it hung up")
    assert store.accounting.used_bytes == 4 * MIB
    arrive(store, gateway, f"{ELSEWHERE}-1", 2 * MIB)
    assert store.accounting.used_bytes == 4 * MIB
    arrive(store, gateway, f"{ELSEWHERE}-2", 2 * MIB, reason="it hung up")
    assert store.accounting.used_bytes == 2 * MIB
    assert answers == ["it hung up", "", "it hung up"]


def test_a_copy_that_memory_cannot_hold_goes_to_disk(store, gateway, session):
    answers: list[Any] = []
    name = f"{ELSEWHERE}-1"
    store.pull(name, 11 * MIB, b"a", answers.append)
    assert gateway.under_way == {name: True}
    arrive(store, gateway, name, 11 * MIB)
    assert answers == [""]
    assert store.accounting.used_bytes == 0
    store.copy_dropped(name)
    assert os.listdir(session.spill) == []


def come_and_go(store, gateway, name, size):
    store.pull(name, size, b"a", lambda failure: None)
    arrive(store, gateway, name, size)
    store.copy_dropped(name)


def test_the_file_of_a_copy_that_went_is_kept_for_the_next(store, gateway, session):
    come_and_go(store, gateway, f"{ELSEWHERE}-1", MIB)
    first = os.path.join(session.shared, spare_file(f"{ELSEWHERE}-1"))
    inode = os.stat(first).st_ino
    assert (store.accounting.used_bytes, f"{ELSEWHERE}-1" in os.listdir(session.shared)) == (
        MIB,
        False,
    )
    name = f"{ELSEWHERE}-2"
    store.pull(name, MIB, b"a", lambda failure: None)
    assert os.stat(os.path.join(session.shared, name)).st_ino == inode
    assert (store.accounting.used_bytes, gateway.gone) == (MIB, [])
    arrive(store, gateway, name, MIB)
    assert (store.accounting.used_bytes, os.listdir(session.shared)) == (MIB, [name])


def test_spare_files_go_first_when_memory_is_needed(store, gateway, session):
    come_and_go(store, gateway, f"{ELSEWHERE}-1", MIB)
    assert store.accounting.used_bytes == MIB
    reserve(store, b"a", 10 * MIB)
    assert (store.accounting.used_bytes, os.listdir(session.shared)) == (10 * MIB, [])
    assert gateway.gone == [f"{ELSEWHERE}-1"]


def test_a_copy_that_is_too_small_to_keep_goes_at_once(store, gateway, session):
    come_and_go(store, gateway, f"{ELSEWHERE}-1", MIB - 1)
    assert (store.accounting.used_bytes, os.listdir(session.shared)) == (0, [])
    assert gateway.gone == [f"{ELSEWHERE}-1"]


def test_a_spare_file_goes_when_the_copy_it_was_taken_for_lies_on_disk(store, gateway, session):
    store.pull(f"{ELSEWHERE}-1", MIB, b"a", lambda failure: None)
    arrive(store, gateway, f"{ELSEWHERE}-1", MIB)
    reserve(store, b"a", 9 * MIB)
    store.copy_dropped(f"{ELSEWHERE}-1")
    store.accounting.promise(b"a", MIB)  # what is promised leaves no room
    store.pull(f"{ELSEWHERE}-2", MIB, b"a", lambda failure: None)
    assert gateway.under_way == {f"{ELSEWHERE}-2": True}
    assert (store.accounting.used_bytes, os.listdir(session.shared)) == (10 * MIB, [])


def test_a_copy_stays_until_its_reader_has_mapped_it_and_who_needs_room_waits(store, gateway):
    answers: list[Any] = []
    first, second = f"{ELSEWHERE}-1", f"{ELSEWHERE}-2"
    for name in (first, second):
        store.pull(name, 4 * MIB, b"a", answers.append)
    arrive(store, gateway, first, 4 * MIB)
    assert (answers, gateway.under_way) == ([""], {}), "two are more than may be on their way"
    wrote = reserve_soon(store, b"w", 8 * MIB)
    assert (wrote, store.evictions) == ([], 0)
    assert store.pinned_bytes == 4 * MIB
    store.used(first, b"a")
    assert store.pinned_bytes == 0
    assert (store.evictions, [error for _, error in wrote]) == (1, [None])
    assert gateway.under_way == {second: True}, "there is no room for it in memory any more"


def test_a_copy_that_is_here_is_pinned_for_who_asks_again_and_not_for_who_only_waits(
    store, gateway
):
    name = f"{ELSEWHERE}-1"
    store.pull(name, 4 * MIB, b"a", lambda failure: None, will_map=False)
    arrive(store, gateway, name, 4 * MIB)
    reserve(store, b"w", 6 * MIB)
    store.pull(name, 4 * MIB, b"a", lambda failure: None)
    waiting = reserve_soon(store, b"w", MIB)
    assert (waiting, store.evictions) == ([], 0)
    store.process_gone(b"a")
    assert ([error for _, error in waiting], store.evictions) == ([None], 1)
