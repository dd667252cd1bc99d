"""The directories of a session: sockets and logs in a private directory, objects in shared
memory.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import stat
import time
from collections.abc import Iterator

import msgspec

from phalanx.runtime.os.kept_identity import (
    JOBS,
    delete_records,
    does_output_wait,
    has_members,
    is_waited_for,
)
from phalanx.runtime.os.real_disks import LASTING, first_on_disk, private_directory

SHM = "/dev/shm"
PASSABLE = 0o711
KEPT = "kept"
"""The name of the directory of records of members that outlive their node."""
_HELPERS = "helpers"
_WAIT_S = 0.01
_SOCKET_PATH = 107
_LONGEST_ROOT = _SOCKET_PATH - len("/" + 16 * "0" + "/s/" + 32 * "0")


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """The directories of one cluster's processes on this machine. All have mode 0700."""

    name: str
    directory: str
    """The directory of sockets and logs."""
    shared: str
    """The directory of objects in shared memory."""
    spill: str
    """The directory of objects that were spilled to disk."""
    disk: str
    """The directory for data that belongs on a disk: files of jobs, and the output of their
    members.
    """

    @property
    def sockets(self) -> str:
        """The directory of the processes' sockets, named by the hex of their ids."""
        return os.path.join(self.directory, "s")

    @property
    def jobs(self) -> str:
        """The directory of the files of jobs. It is made for the first of these files."""
        return os.path.join(self.disk, JOBS)

    @property
    def kept(self) -> str:
        """The directory of the records of members that outlive their node (`kept_records`)."""
        return os.path.join(self.directory, KEPT)

    @property
    def logs(self) -> str:
        """The directory of the workers' output."""
        return os.path.join(self.directory, "logs")

    def socket_of(self, process: bytes) -> str:
        """Return the path of a process's socket; b"node" is the node's, b"control" the head's."""
        name = process.decode() if process in (b"node", b"control") else process.hex()
        return os.path.join(self.sockets, name)


def runtime_root(base: str | None = None) -> str:
    """Return the user's private directory for sessions.

    Raises PermissionError if it is not private, and ValueError if a `base` that the caller chose is
    too long for the paths of sockets.
    """
    if base is None:
        base = next(filter(_is_short_enough, _usual_roots()), _below_temporary("/tmp"))
    elif not _is_short_enough(base):
        raise ValueError(
            f"_temp_dir {base} is too long: sockets' paths end after {_SOCKET_PATH} bytes, which "
            f"leaves {_LONGEST_ROOT} for it. Choose a shorter path."
        )
    return private_directory(base)


def _usual_roots() -> Iterator[str]:
    """Yield directories for sessions, the best one first."""
    run = os.environ.get("XDG_RUNTIME_DIR")
    if run and _is_usable(run):
        yield os.path.join(run, "phalanx")
    yield _below_temporary(_temporary())


def _is_short_enough(base: str) -> bool:
    return len(os.fsencode(base)) <= _LONGEST_ROOT


def _temporary() -> str:
    # Imported here because most commands need only the runtime directory, and this import takes
    # longer than everything that they do.
    import tempfile

    return tempfile.gettempdir()


def is_chosen() -> bool:
    """Whether the user has chosen a runtime directory. Its sessions are then separate from all
    others.

    Otherwise the runtime directory is the login's, which cron jobs, sudo and system services do not
    have.
    """
    run = os.environ.get("XDG_RUNTIME_DIR")
    return run is not None and _is_usable(run) and run != f"/run/user/{os.getuid()}"


def _is_usable(run: str) -> bool:
    return os.path.isdir(run) and os.access(run, os.W_OK)


def _below_temporary(directory: str) -> str:
    return os.path.join(directory, f"phalanx-{os.getuid()}")


def _spill_root(base: str) -> str:
    """Return the directory for spilled objects.

    The system's runtime directory is in memory, and the directory for temporary files may be, too.
    """
    run = os.environ.get("XDG_RUNTIME_DIR")
    is_of_system = run is not None and os.path.dirname(base) == run
    first = _below_temporary(_temporary()) if is_of_system else base
    return first_on_disk((first, _below_temporary(LASTING)), base)


def _disk_root(base: str) -> str:
    """Return the directory for jobs' output, which is kept longer than temporary files are.

    A TMPDIR that the user has set comes first.
    """
    chosen = [_temporary()] if os.environ.get("TMPDIR") else []
    places = (*chosen, LASTING, _temporary())
    return first_on_disk([_below_temporary(one) for one in places], base)


def _open_disk_root() -> str:
    """Return the directory for the files of jobs that run under other accounts. These accounts may
    pass through it to their own files. Raises PermissionError if other accounts can change the
    directory.
    """
    base = os.path.join(LASTING, f"phalanx-jobs-{os.getuid()}")
    try:
        os.mkdir(base)
        os.chmod(base, PASSABLE)
    except FileExistsError:
        found = os.lstat(base)
        if found.st_uid != os.getuid() or found.st_mode != stat.S_IFDIR | PASSABLE:
            raise PermissionError(
                f"{base} must be a directory of this user with mode 0711: remove it"
            ) from None
    return base


def create(base: str | None = None, has_users: bool = False) -> Session:
    """Make a new session's directories, and delete those of dead sessions.

    If `base` is given, all directories except shared memory are below it. `has_users`: whether jobs
    run under other accounts, which must reach their files.
    """
    root = runtime_root(base)
    spill_root = root if base is not None else _spill_root(root)
    disk_root = root if base is not None else _disk_root(root)
    if has_users:
        disk_root = _open_disk_root()
    sweep(root)
    import secrets  # a command that only asks should make no session

    name = secrets.token_hex(8)
    directory = os.path.join(root, name)
    shm_root = SHM if os.access(SHM, os.W_OK) else root
    shared = os.path.join(shm_root, f"phalanx-{os.getuid()}-{name}")
    spill = os.path.join(spill_root, f"{name}-spill")
    disk = os.path.join(disk_root, f"{name}-disk")
    session = Session(name=name, directory=directory, shared=shared, spill=spill, disk=disk)
    try:
        for path in (directory, session.sockets, spill, disk, session.logs, shared):
            os.mkdir(path, mode=0o700)
        if has_users:
            os.chmod(disk, PASSABLE)
    except BaseException:
        remove(session)
        raise
    own(session, os.getpid())
    return session


def own(session: Session, pid: int) -> None:
    """Tie the session to a process: while that process lives, `sweep` keeps the session."""
    record = {
        "pid": pid,
        "started": started_at(pid),
        "shared": session.shared,
        "spill": session.spill,
        "disk": session.disk,
    }
    path = os.path.join(session.directory, "owner")
    fd = os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(fd, "w") as file:
        json.dump(record, file)
    os.rename(path + ".new", path)


def read_session(directory: str) -> Session:
    """Return the session in this directory. Raises OSError, ValueError or KeyError."""
    with open(os.path.join(directory, "owner")) as file:
        record = json.load(file)
    return Session(
        name=os.path.basename(directory),
        directory=directory,
        shared=record["shared"],
        spill=record["spill"],
        disk=record.get("disk", directory),  # an earlier version wrote no field `disk`
    )


def owner_of(directory: str) -> int | None:
    """Return the process with which a session ends; None if that process has ended already. Raises
    the errors of `read_session`.
    """
    with open(os.path.join(directory, "owner")) as file:
        record = json.load(file)
    return record["pid"] if started_at(record["pid"]) == record["started"] else None


def remove(session: Session) -> None:
    """Delete all files of a session."""
    from shutil import rmtree

    rmtree(session.shared, ignore_errors=True)
    rmtree(session.spill, ignore_errors=True)
    rmtree(session.disk, ignore_errors=True)
    rmtree(session.directory, ignore_errors=True)


def leave(session: Session, is_over: bool, keeps: bool) -> None:
    """Delete the session of a node that ends. The objects are always deleted. The other files stay
    if members continue without the node, and if the node's next process will show the output of
    jobs.

    `is_over`: whether no member continues. `keeps`: whether the node may have a next process, with
    which members continue. If it may, and the directory of the members' records is missing, the
    next process has taken the directory over, and the other files stay.
    """
    from shutil import rmtree

    rmtree(session.shared, ignore_errors=True)
    rmtree(session.spill, ignore_errors=True)
    if keeps and does_output_wait(session.kept, session.disk):
        if is_over:
            delete_records(session.kept)
        return
    if is_over or (not has_members(session.kept) and (not keeps or os.path.isdir(session.kept))):
        remove(session)


def sweep(root: str) -> None:
    """Delete the sessions whose owning process, identified by its pid and start time, has ended.
    The sessions of nodes that may come back to their members, or to the output of jobs, are kept.
    """
    for name in os.listdir(root):
        directory = os.path.join(root, name)
        try:
            with open(os.path.join(directory, "owner")) as file:
                record = json.load(file)
            alive = started_at(record["pid"]) == record["started"]
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if not alive and os.path.isdir(os.path.join(directory, KEPT)):
            kept = os.path.join(directory, KEPT)
            alive = is_waited_for(kept) or does_output_wait(kept, record.get("disk", directory))
        if not alive:
            from shutil import rmtree

            end_helpers(directory)
            rmtree(record["shared"], ignore_errors=True)
            for kind in ("spill", "disk"):
                rmtree(record.get(kind, directory), ignore_errors=True)
            rmtree(directory, ignore_errors=True)


def note_helper(directory: str, pid: int) -> None:
    """Record, in a file of `directory`, a process that `end_helpers` must end."""
    with open(os.path.join(directory, _HELPERS), "a") as file:
        file.write(f"{pid} {started_at(pid)}\n")


def end_helpers(directory: str) -> None:
    """End the processes that were recorded in this directory. Returns when they have ended."""
    path = os.path.join(directory, _HELPERS)
    with contextlib.suppress(OSError):
        with open(path) as file:
            noted = [line.split() for line in file if line.count(" ") == 1]
        for pid, started in noted:
            while started_at(int(pid)) == started:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
                time.sleep(_WAIT_S)
        os.unlink(path)


def started_at(pid: int) -> str | None:
    """Return the kernel's start time of a process, which distinguishes it from a later process with
    the same pid.

    None if the process has ended, whether it was reaped or not.
    """
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return None if fields[0] in "ZX" else fields[19]
    except (OSError, IndexError):
        return None
