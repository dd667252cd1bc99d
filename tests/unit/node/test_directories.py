"""Directories that are full or not writable: what a node concludes from its measurements."""

from __future__ import annotations

import os
import stat
from typing import Any

import pytest

from phalanx.node.directories import FRESH_S, LOOK_EVERY_S, LOST_BYTES, Directories, DirectorySample
from phalanx.runtime.os.directory_space import DirectorySpace, Watched

MIB = 1 << 20
GIB = 1 << 30


def sample(**seen):
    known: dict[str, Any] = {"what": "sockets", "path": "/d", "free": GIB, "total": GIB}
    return DirectorySample(**known | seen)


class Node:
    def __init__(self):
        self.now = 0.0
        self.seen = [sample()]
        self.writes = []
        self.noted: list[str] = []
        self.directories = Directories(self, lambda: self.now, self.note)

    def note(self, text, **about):
        self.noted.append(text)

    def look(self, writes):
        self.writes.append(writes)
        return self.seen

    def sees(self, **seen):
        """Let the directory look like that for a while; return the trouble that the node then
        reports.
        """
        self.seen = [sample(**seen)]
        self.now += LOOK_EVERY_S
        self.directories.tick(self.now)
        return self.directories.trouble


@pytest.fixture
def node():
    return Node()


@pytest.mark.parametrize(
    ("seen", "trouble"),
    [
        ({}, ""),
        ({"free": 17 * MIB}, ""),
        ({"free": 15 * MIB}, "its directory for sockets, /d, is full"),
        ({"free": 3 * MIB, "total": 100 * MIB}, ""),
        ({"free": MIB, "total": 100 * MIB}, "its directory for sockets, /d, is full"),
        ({"free": 0, "own": 500 * MIB}, ""),  # its own objects, which go by limits of their own
        ({"free": 0, "own": MIB}, "its directory for sockets, /d, is full"),
        (
            {"error": "Read-only file system"},
            "its directory for sockets, /d, cannot be written to: Read-only file system",
        ),
        (
            {"is_out_of_files": True},
            "its directory for sockets, /d, has no room for more files",
        ),
    ],
)
def test_what_is_trouble(node, seen, trouble):
    assert node.sees(**seen) == trouble
    assert node.noted == [trouble] * bool(trouble)


def test_a_full_directory_is_well_again_with_twice_the_room(node):
    troubles = [bool(node.sees(free=free * MIB)) for free in (17, 15, 17, 31, 33, 17)]
    assert troubles == [False, True, True, True, False, False]
    assert node.noted[-1] == "its directories are well again"


def test_files_are_written_to_see_that_it_is_well_again(node):
    node.sees(error="Disk quota exceeded")
    node.sees(error="Disk quota exceeded")
    assert node.sees() == ""
    node.sees()
    assert node.writes == [False, True, True, False]


def test_old_logs_go_before_it_is_full(node):
    dropped = []

    def make_room():
        dropped.append(1)
        node.seen = [sample(free=len(dropped) * 10 * MIB, has_logs=True)]
        return True

    node.directories.make_room = make_room
    assert node.sees(free=0, has_logs=True) == ""
    assert len(dropped) == 2


def test_what_was_seen_a_moment_ago_is_not_looked_at_again_unless_it_was_trouble(node):
    assert [node.directories.seen() for _ in range(3)] == [""] * 3
    assert len(node.writes) == 1
    node.now += FRESH_S
    node.seen = [sample(free=0)]
    assert all(node.directories.seen() for _ in range(3))
    assert len(node.writes) == 4


def test_it_is_known_when_what_was_printed_may_be_lost(node):
    node.sees(free=LOST_BYTES - 1, has_logs=True)
    full_at = node.now
    node.sees(free=GIB, has_logs=True)
    assert node.directories.was_full_since(full_at)
    assert not node.directories.was_full_since(full_at + 0.1)


# ---- real directories ------------------------------------------------------------------------


def look(path, writes=False):
    (seen,) = DirectorySpace([Watched("sockets", str(path))]).look(writes)
    return seen


def test_a_directory_as_it_is(tmp_path):
    found = os.statvfs(tmp_path)
    seen = look(tmp_path, writes=True)
    assert (seen.error, seen.total) == ("", found.f_blocks * found.f_frsize)
    assert os.listdir(tmp_path) == []


def test_a_directory_that_is_gone(tmp_path):
    assert look(tmp_path / "gone").error == "No such file or directory"


def test_a_directory_that_is_none(tmp_path):
    (tmp_path / "file").write_text("")
    assert look(tmp_path / "file", writes=True).error == "Not a directory"


@pytest.mark.skipif(os.getuid() == 0, reason="root may write to any directory")
def test_a_directory_that_may_not_be_written_to(tmp_path):
    tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        assert look(tmp_path).error == "Permission denied"
    finally:
        tmp_path.chmod(stat.S_IRWXU)


def test_a_probe_never_follows_a_link(tmp_path):
    (tmp_path / "kept").write_text("kept")
    (tmp_path / ".phalanx-probe").symlink_to(tmp_path / "kept")
    assert look(tmp_path, writes=True).error
    assert (tmp_path / "kept").read_text() == "kept"
