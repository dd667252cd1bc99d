"""Objects in shared memory: they are written one time, read without a copy, and moved to disk when
memory is full.
"""

from __future__ import annotations

import errno
import os
import pickle
import resource
import shutil
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.objects.memory_node import MIB, Node

from phalanx.errors import (
    LocalNodeDiedError,
    ObjectLostError,
    OutOfDiskError,
    SystemFailureError,
)
from phalanx.objects.names import spare_file
from phalanx.objects.reference import make_ref
from phalanx.runtime.driver.values import Values
from phalanx.runtime.os import shared_memory


@pytest.fixture
def node(tmp_path):
    return Node(tmp_path)


def test_what_is_written_is_read(node):
    buffers = [b"", b"x" * 1000, bytes(range(256)) * 40]
    value, _hold = node.store.write(b"the pickle", [pickle.PickleBuffer(b) for b in buffers])
    data, views = node.store.parts(node.store.open(value.data.decode()))
    assert bytes(data) == b"the pickle"
    assert [bytes(v) for v in views] == buffers
    assert all(v.readonly for v in views)


def test_who_waits_for_credit_holds_up_no_other_thread(node, monkeypatch):
    written = []

    def reserve(wanted):
        monkeypatch.setattr(node.store, "_reserve", node.reserve)
        other = threading.Thread(target=lambda: written.append(node.store.write(b"other", [])))
        other.start()
        other.join(30)
        return node.reserve(wanted)

    monkeypatch.setattr(node.store, "_reserve", reserve)
    node.store.write(b"first", [])
    assert len(written) == 1


def test_two_threads_that_read_at_once_share_one_mapping(node):
    """If they had two mappings, only one of the threads would keep the pages from being used
    again.
    """
    link: Any = SimpleNamespace(post=lambda message: None)
    unused: Any = None
    values = Values(b"p" * 16, node.store, unused, link, unused, threading.RLock())
    ref = make_ref(b"p" * 16, 1)
    payload, ref._hold = node.store.write(pickle.dumps(b"x" * MIB), [pickle.PickleBuffer(b"y")])
    ref._value = payload
    both_opened = threading.Barrier(2, timeout=120)
    found = []
    open_one = node.store.open

    def open_together(name):
        mapping = open_one(name)
        both_opened.wait()
        return mapping

    node.store.open = open_together

    def parts(mapping):
        found.append(id(mapping))
        return pickle.dumps(1), []

    node.store.parts = parts
    threads = [threading.Thread(target=values.read, args=(ref,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [id(ref._cached)] * 2


def test_what_was_spilled_is_read_from_disk(node):
    name, hold = node.write(5)
    node.do_spill(name)
    assert bytes(node.read(name)[1][:1]) == b"\5"
    del hold
    node.store.collect()
    assert os.listdir(node.spill) == []


def test_what_is_gone_is_lost(node):
    name, _hold = node.write(5)
    os.unlink(os.path.join(node.shared, name))
    with pytest.raises(ObjectLostError, match="gone"):
        node.store.open(name)


def test_a_full_file_system_is_an_error_and_nothing_stays(node):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (MIB // 2, before[1]))
    try:
        with pytest.raises(OutOfDiskError, match=r"1\d+ bytes fits neither .* too large"):
            node.write(1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert node.files() == []
    granted = node.granted
    node.write(2)
    assert node.granted == granted, "the credit of what failed is still there"


def test_what_the_node_refuses_lives_on_disk(node):
    node.is_full = True
    name, hold = node.write(1)
    assert (node.files(), os.listdir(node.spill)) == ([], [name])
    assert bytes(node.read(name)[1][:1]) == b"\1"
    del hold
    node.store.collect()
    assert os.listdir(node.spill) == []


def test_what_shared_memory_cannot_hold_lives_on_disk_and_takes_no_credit(node, monkeypatch):
    tried = []
    map_pages = shared_memory._map_with_pages

    def full_at_first(fd, capacity):
        tried.append(capacity)
        if len(tried) == 1:
            raise OSError(28, "No space left on device")
        return map_pages(fd, capacity)

    monkeypatch.setattr(shared_memory, "_map_with_pages", full_at_first)
    name, _hold = node.write(1)
    assert os.listdir(node.spill) == [name]
    granted = node.granted
    _, _kept = node.write(2)
    assert node.granted == granted
    assert len(node.files()) == 1


def test_a_session_that_ended_says_so(node):
    _name, hold = node.write(1)
    hold.seen = True
    del hold
    node.store.collect()
    shutil.rmtree(node.shared)
    with pytest.raises(LocalNodeDiedError, match="session has ended"):
        node.write(2)


def test_news_of_spilling_wait_for_a_writer_at_work(node):
    """The thread that reads the sockets hears that an object was spilled, while another thread
    chooses pages to write to.
    """
    name, hold = node.write(1)
    del hold
    node.store.collect()
    with node.store._lock:
        other = threading.Thread(target=node.store.unmap_spilled, args=([name],))
        other.start()
        other.join(10)
        assert not other.is_alive()
        assert [extent.name for extent in node.store._kept] == [name]
    node.store.collect()
    assert node.store._kept == []


@pytest.mark.parametrize("writer", ["0b", "70"])
def test_a_file_that_loses_its_name_while_it_is_opened_is_not_read(tmp_path, monkeypatch, writer):
    """A file may be written over as soon as it has lost its name. A file that still has its name
    after it was mapped may not.
    """
    node = Node(tmp_path)
    name = f"{writer * 16}-1"
    path = os.path.join(node.shared, name)
    with open(path, "wb") as file:
        file.write(bytes(MIB))
    node.store.open(name).close()
    really_open = os.open

    def open_late(wanted, *flags):
        fd = really_open(wanted, *flags)
        if wanted == path:
            os.rename(path, os.path.join(node.shared, spare_file(name)))
        return fd

    monkeypatch.setattr("phalanx.runtime.os.shared_memory.os.open", open_late)
    with pytest.raises(ObjectLostError):
        node.store.open(name)


def open_files():
    return len(os.listdir("/proc/self/fd"))


def test_objects_keep_few_descriptors(node, monkeypatch):
    monkeypatch.setattr(node.store, "_most_watched", 4)
    before = open_files()
    written = [node.write(value, 5000) for value in range(30)]
    read = [node.read(name) for name, _ in written]
    assert open_files() == before + 4
    assert [bytes(view[:1]) for _, view in read] == [bytes([value]) for value in range(30)]
    assert all(view.readonly for _, view in read)


def test_no_descriptor_left_is_the_error_that_it_is(node):
    name, _hold = node.write(1)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = max(int(fd) for fd in os.listdir("/proc/self/fd")) + 1
    spare = [os.dup(0) for _ in range(used - open_files() + 1)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (used, before[1]))
    try:
        with pytest.raises(SystemFailureError, match="Too many open files"):
            node.write(2)
        with pytest.raises(SystemFailureError, match="ulimit -n"):
            node.store.open(name)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        for fd in spare:
            os.close(fd)
    node.write(2)
    assert bytes(node.read(name)[1][:1]) == b"\1"


def test_the_oldest_writers_mappings_go_first(node, monkeypatch):
    monkeypatch.setattr(shared_memory, "WRITTEN_MAPPINGS", 3)
    written = [node.write(value, 5000) for value in range(5)]
    assert [hold.extent.map is not None for _, hold in written] == [False, False, True, True, True]
    assert all(bytes(node.read(n)[1][:1]) == bytes([i]) for i, (n, _) in enumerate(written))
    written.clear()
    node.store.collect()
    node.store.trim()
    assert node.files() == []


def test_too_many_mappings_are_the_error_that_they_are(node, monkeypatch):
    name, _hold = node.write(1)

    def refuse(*_args, **_options):
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    monkeypatch.setattr(shared_memory, "map_file", refuse)
    for attempt in (lambda: node.write(2), lambda: node.store.open(name)):
        with pytest.raises(SystemFailureError, match="max_map_count"):
            attempt()
    assert node.files() == [name]
