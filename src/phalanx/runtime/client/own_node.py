"""Finds the node that has started this process, if the process is a command of a job. The node's
directories and name are in the process's environment.
"""

from __future__ import annotations

import os
from pathlib import Path

from phalanx.runtime.daemon_registry import registered
from phalanx.runtime.daemons.daemon_files import Announcement, daemons
from phalanx.runtime.os import session as sessions
from phalanx.runtime.os.session import Session

_FILES, _NODE = "PHALANX_FILES", "PHALANX_NODE"


def node_of_this_job() -> Session:
    """Return the session of the node that has started this command of a job.

    Raises ConnectionError if this process is no command of a job, and if no living node of this
    account runs the job.
    """
    if _FILES not in os.environ and _NODE not in os.environ:
        raise ConnectionError(
            f"this process is no command of a job: neither {_FILES} nor {_NODE} is set"
        )
    files = os.path.realpath(os.environ.get(_FILES, "/nowhere"))
    nodes = _nodes(files)
    for session, _ in nodes:
        for directory in (session.disk, session.directory):
            if files.startswith(os.path.join(os.path.realpath(directory), "")):
                return session
    name = os.environ.get(_NODE, "")
    for session, one in nodes:
        if name and (one.name == name or one.node_id.startswith(name)):
            return session
    who = f"the node {name}" if name else "the node"
    raise ConnectionError(
        f"{who} of this job is not found: it has ended, or it belongs to another account (tasks "
        "and actors stay within one account)"
    )


def _nodes(files: str) -> list[tuple[Session, Announcement]]:
    """Return the nodes of this machine. `files`: a directory of the job's files. If the job belongs
    to a private cluster, its nodes are found through the directories above this one.
    """
    found = daemons(sessions.runtime_root())
    found += [(one.session, one.daemon) for one in registered()]
    for above in Path(files).parents:
        if above.name.endswith("-disk"):
            found += daemons(str(above.parent))
    return [(session, one) for session, one in found if one.kind == "node"]
