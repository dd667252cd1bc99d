"""The identity of the node whose members have records in a directory. It shows whether a new
process of that node may continue with these members.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time

import msgspec

from phalanx.node.kept_logs import KEPT_S
from phalanx.runtime.os.exit_files import is_held
from phalanx.runtime.os.system import boot_id

IDENTITY = "identity"
"""The name of the file with the identity."""
JOBS = "jobs"
"""The name of the directory of jobs' files, in a session's directory on the disk."""
RECORD = "member-"
"""The beginning of the names of members' records."""
WAITS_S = 86_400.0
"""Seconds for which members that have ended wait for their node. A member that runs waits without a
limit.
"""


class Identity(msgspec.Struct, kw_only=True):
    """The identity of the node to which the records belong."""

    boot: str
    """The id of the boot of the machine, which changes when the machine restarts."""
    head: str
    """The address of the head, as HOST:PORT."""
    name: str
    """The name that people gave the node; "" if they gave none."""
    nodes: list[str] = []
    """The ids under which the head knows the members. The last one is the id of the node that wrote
    this identity.
    """

    def is_same_node(self, other: Identity) -> bool:
        """Whether another identity belongs to the same node, even from another boot."""
        return (self.head, self.name) == (other.head, other.name)


def read_identity(directory: str) -> Identity | None:
    """Return the identity in a directory of records; None if it cannot be read."""
    try:
        with open(os.path.join(directory, IDENTITY), "rb") as file:
            return msgspec.json.decode(file.read(), type=Identity)
    except (OSError, msgspec.MsgspecError):
        return None


def has_members(kept: str) -> bool:
    """Whether there is a record of any member in a directory of records."""
    with contextlib.suppress(OSError):
        return any(name.startswith(RECORD) for name in os.listdir(kept))
    return False


def has_output(disk: str) -> bool:
    """Whether a session's directory on the disk contains files of any job, with its output."""
    with contextlib.suppress(OSError), os.scandir(os.path.join(disk, JOBS)) as found:
        return any(True for _ in found)
    return False


def does_output_wait(kept: str, disk: str) -> bool:
    """Whether the output of a dead node's jobs waits for the next process of the node."""
    known = read_identity(kept)
    if known is None or known.boot != boot_id() or not has_output(disk):
        return False
    return time.time() - os.stat(kept).st_mtime < KEPT_S


def delete_records(kept: str) -> None:
    """Delete the records of members, which have ended. The identity stays."""
    for name in os.listdir(kept):
        if name != IDENTITY:
            path = os.path.join(kept, name)
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path, ignore_errors=True)
            else:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)


def is_waited_for(kept: str) -> bool:
    """Whether members of a dead node run or ended lately, so that the node may come back for
    them.
    """
    known = read_identity(kept)
    if known is None or known.boot != boot_id() or not has_members(kept):
        return False
    if time.time() - os.stat(kept).st_mtime < WAITS_S:
        return True
    if any(is_held(os.path.join(kept, name)) for name in os.listdir(kept)):
        return True
    # imported here because few commands reach this line
    from phalanx.runtime.os.account_doors import has_account_with_work

    return has_account_with_work(kept)
