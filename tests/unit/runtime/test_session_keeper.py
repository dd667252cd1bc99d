"""A session's directories are made again if others remove them."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat

import pytest

from phalanx.runtime.os import session as sessions
from phalanx.runtime.os.connection import connect, listen, listen_again
from phalanx.runtime.os.session_keeper import LOOK_EVERY_S, SessionKeeper


@pytest.fixture
def session():
    base = f"/tmp/phk-{os.getpid()}"
    made = sessions.create(base)
    yield made
    sessions.remove(made)
    shutil.rmtree(base, ignore_errors=True)


class Keeper:
    def __init__(self, session):
        self.keeper = SessionKeeper(session)
        self.now = 0.0

    def tick(self):
        self.now += LOOK_EVERY_S
        self.keeper.tick(self.now)


def parts(session):
    return (session.directory, session.sockets, session.logs, session.spill, session.disk)


@pytest.mark.parametrize("gone", ["root", "directory", "sockets", "spill", "disk", "shared"])
def test_what_was_removed_is_made_again(session, gone, capfd):
    keeper = Keeper(session)
    keeper.tick()
    root = os.path.dirname(session.directory)
    shutil.rmtree(root if gone == "root" else getattr(session, gone))
    keeper.tick()
    modes = {stat.S_IMODE(os.stat(path).st_mode) for path in (*parts(session), session.shared)}
    assert modes == {0o700}
    assert sessions.read_session(session.directory) == session
    assert sessions.owner_of(session.directory) == os.getpid()
    assert "was removed by another program, and was made again" in capfd.readouterr().err


def test_a_file_that_was_remembered_survives_a_removal_before_the_next_look(session):
    keeper = Keeper(session)
    keeper.tick()
    with open(os.path.join(session.directory, "daemon"), "w") as file:
        file.write("announced")
    keeper.keeper.remember()
    shutil.rmtree(session.directory)
    keeper.tick()
    with open(os.path.join(session.directory, "daemon")) as file:
        assert file.read() == "announced"


def test_the_files_by_which_it_is_found_are_written_again(session):
    keeper = Keeper(session)
    keeper.tick()
    os.unlink(os.path.join(session.directory, "owner"))
    keeper.tick()
    assert sessions.read_session(session.directory) == session


def test_nothing_is_made_in_a_directory_that_is_not_private(session, capfd):
    keeper = Keeper(session)
    keeper.tick()
    root = os.path.dirname(session.directory)
    shutil.rmtree(root)
    os.mkdir(root)
    os.chmod(root, 0o755)
    for _ in range(3):
        keeper.tick()
    assert os.listdir(root) == []
    assert capfd.readouterr().err.count("cannot be made again") == 1
    os.chmod(root, 0o700)
    keeper.tick()
    assert sessions.read_session(session.directory) == session


def test_directories_are_locked_against_programs_that_clean_up(session):
    keeper = Keeper(session)
    keeper.tick()
    shutil.rmtree(session.directory)
    keeper.tick()
    for path in (session.directory, session.spill, session.disk):
        fd = os.open(path, os.O_RDONLY)
        with pytest.raises(BlockingIOError):
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(fd)


def test_a_socket_whose_file_is_gone_listens_again(session):
    path = os.path.join(session.sockets, "x")
    with listen(path) as first:
        assert listen_again(first) is None
        shutil.rmtree(session.sockets)
        assert listen_again(first) is None, "there is no directory yet"
        os.mkdir(session.sockets, 0o700)
        second = listen_again(first)
        assert second is not None
        with second:
            connect(path).close()
