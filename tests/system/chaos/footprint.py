"""The footprint of a session on this machine: its processes, descriptors, files and memory."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import psutil
from tests.node_parts import fork_server_of, workers_of
from tests.polling import eventually


def is_running(pid):
    """Whether a process lives. A process that has ended and waits to be reaped does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


class Footprint:
    """The directories and processes of one session, found from its driver's pid and the answer of
    `init`.
    """

    def __init__(self, driver_pid, session_dir, shared):
        self.driver = driver_pid
        self.directory = Path(session_dir)
        self.shared = Path(shared)
        private = Path(tempfile.gettempdir()) / f"phalanx-{os.getuid()}"
        self.spills = {p / f"{self.directory.name}-spill" for p in (self.directory.parent, private)}

    @classmethod
    def of(cls, handle, driver_pid=None):
        """Return the footprint of the session that `init` returned."""
        return cls(driver_pid or os.getpid(), handle["session_dir"], handle["object_store_address"])

    @property
    def node(self):
        for child in psutil.Process(self.driver).children():
            if any("runtime.node.process" in part for part in child.cmdline()):
                return child.pid
        raise AssertionError("no node process")

    @property
    def fork_server(self):
        """The pid of the process that forks all workers."""
        return fork_server_of(self.node)

    @property
    def workers(self):
        return workers_of(self.node)

    def processes(self):
        """Return the pids of the node, its fork server and its workers."""
        return [child.pid for child in psutil.Process(self.node).children(True)] + [self.node]

    def files(self):
        """Return the files and folders of the session, on disk and in shared memory."""
        places = (self.directory, self.shared, *self.spills)
        found = []
        for place in places:
            for folder, _, names in os.walk(place):  # it may vanish while we look
                found += [folder, *(os.path.join(folder, name) for name in names)]
        return found

    def objects(self):
        """Return the files of objects, in shared memory and spilled."""
        return [*self.shared.iterdir(), *self.spilled()]

    def spilled(self):
        """Return the files of spilled objects."""
        return [p for place in self.spills if place.exists() for p in place.iterdir()]

    def sockets(self):
        """Return the session's socket files, also those at which no process listens any more."""
        return list((self.directory / "s").iterdir())

    def wait_gone(self, pids):
        """Wait until no file of the session and none of these processes is left."""
        eventually(lambda: not self.files(), "the end of all files")
        eventually(lambda: not any(map(is_running, pids)), "the end of all processes")


def descriptors(pid):
    """Return the number of descriptors that a process has open."""
    return len(os.listdir(f"/proc/{pid}/fd"))


def resident_bytes(pid):
    """Return the bytes of memory that a process holds."""
    return psutil.Process(pid).memory_info().rss
