"""Continues a node's session under another name in the node's next process, if members still live
or the session has output of jobs.

The next process gets the files of jobs, with their output, and the records of members. Sockets and
objects in memory end with the old process.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator

import msgspec

from phalanx.runtime.os import kept_records
from phalanx.runtime.os import session as sessions
from phalanx.runtime.os.kept_identity import (
    Identity,
    delete_records,
    has_members,
    has_output,
    read_identity,
)
from phalanx.runtime.os.session import Session
from phalanx.runtime.os.system import boot_id


def create(base: str | None, head: str, name: str, has_users: bool = False) -> Session:
    """Make the session of a node. If the node's earlier process has left members or output of jobs,
    the session continues with them.

    `head` and `name`: see `kept_identity.Identity`. `has_users`: see `session.create`.
    """
    root = sessions.runtime_root(base)
    wanted = Identity(boot=boot_id(), head=head, name=name)
    with _claiming(root):
        for directory in _dead(root):
            known = read_identity(os.path.join(directory, sessions.KEPT))
            if known is not None and known.is_same_node(wanted) and known.boot == wanted.boot:
                with contextlib.suppress(OSError, ValueError, KeyError):
                    return _go_on(directory)
    session = sessions.create(base, has_users)
    os.mkdir(session.kept, 0o700)
    return session


def go_on(session: Session) -> Session:
    """Continue the session of this process under another name."""
    with _claiming(os.path.dirname(session.directory)):
        return _go_on(session.directory)


def _go_on(directory: str) -> Session:
    old = sessions.read_session(directory)
    root, name = os.path.dirname(directory), secrets.token_hex(8)
    new = msgspec.structs.replace(
        old,
        name=name,
        directory=os.path.join(root, name),
        shared=old.shared.replace(old.name, name),
        spill=old.spill.replace(old.name, name),
    )
    os.rename(directory, new.directory)
    sessions.end_helpers(new.directory)  # such as the daemons that share GPUs
    for path in (new.sockets, old.shared, old.spill):
        shutil.rmtree(path, ignore_errors=True)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(new.directory, "daemon"))
    for path in (new.sockets, new.shared, new.spill):
        os.mkdir(path, mode=0o700)
    with contextlib.suppress(FileExistsError):
        os.mkdir(new.disk, mode=0o700)
    sessions.own(new, os.getpid())
    return new


def _dead(root: str) -> Iterator[str]:
    """Yield the directories of sessions that have members or output of jobs and whose process has
    ended, latest first.
    """
    found = []
    for name in os.listdir(root):
        directory = os.path.join(root, name)
        kept = os.path.join(directory, sessions.KEPT)
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            disk = sessions.read_session(directory).disk
            if sessions.owner_of(directory) is None and (has_members(kept) or has_output(disk)):
                found.append((os.stat(kept).st_mtime_ns, directory))
    yield from (directory for _, directory in sorted(found, reverse=True))


@contextlib.contextmanager
def _claiming(root: str) -> Iterator[None]:
    """Keep other processes from looking for sessions to continue, until the block ends."""
    fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def end_members(root: str) -> None:
    """End the members of all sessions whose processes have ended, because no node will continue
    with them. Delete their records.
    """
    from phalanx.runtime.os.account_doors import end_accounts
    from phalanx.runtime.os.adopted_commands import end_command
    from phalanx.runtime.os.command_groups import find_command_groups
    from phalanx.runtime.os.exit_files import read_exit_file

    groups = find_command_groups(os.getpid())
    with _claiming(root):
        for directory in _dead(root):
            kept = os.path.join(directory, sessions.KEPT)
            if not has_members(kept):
                continue
            sessions.end_helpers(kept)
            end_accounts(kept)
            for process in kept_records.processes_in(kept):
                path = os.path.join(kept, kept_records.EXIT + process.hex())
                if (begun := read_exit_file(path)) is not None:
                    end_command(begun, path, groups.find_of_earlier(process, 0))
            delete_records(kept)


def delete_output(root: str) -> None:
    """Delete the sessions whose processes have ended, with the output of their jobs. No member of
    these sessions may run.
    """
    with _claiming(root):
        for directory in _dead(root):
            sessions.remove(sessions.read_session(directory))
