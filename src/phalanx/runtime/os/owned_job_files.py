"""The files of jobs that run as their submitters. Each account reaches only the files of its own
jobs.

The files belong to the node's account, and access lists give the submitter rights: it may read the
files of its job, append to the log, and use the directory of its member. The submitter
cannot change a directory in which the node opens files by name, so it cannot make the node open
other files.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable

from phalanx.protocol.bundle_messages import StartMember
from phalanx.runtime.os.access_lists import ENTER, READ, WRITE, let, let_both_use_all_below
from phalanx.runtime.os.below import make_below, open_below
from phalanx.runtime.os.job_files import JobDirectories

OWN = "own"
"""The directory among a job's files in which the job itself may make files."""


class OwnedJobDirectories(JobDirectories):
    """The directories of jobs of several accounts."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.admit: Callable[[StartMember], None] = lambda order: None
        """A function that is called for each member before it begins."""

    def make(self, order: StartMember) -> str:
        """Write the member's files, and give the member's account its rights on them. Returns the
        path of the member's log. Raises OSError.
        """
        self.admit(order)
        log = super().make(order)
        uid = -1 if order.grant is None or order.grant.refusal else order.grant.uid
        for path in (*self._logs(order), os.path.relpath(self.error_path(order), self.root)):
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK
            fd = open_below(self.root, path, flags)
            try:
                if uid >= 0:
                    let(fd, uid, READ | WRITE)
            finally:
                os.close(fd)
        if uid < 0:
            return log
        files = os.path.join(os.path.dirname(self.home(order)), "files")
        for name in order.files:
            let(os.path.join(files, os.path.basename(name)), uid, READ | ENTER)
        make_below(self.root, os.path.relpath(os.path.join(files, OWN), self.root))
        let_both_use_all_below(os.path.join(files, OWN), uid)
        let(files, uid, READ | ENTER, is_directory=True)
        self._let_into(os.path.dirname(files), uid)
        return log

    def give_packages(self, order: StartMember) -> None:
        """Link a member's packages among the files of its job, and let the member's account read
        the packages.
        """
        super().give_packages(order)
        if order.grant is None or order.grant.refusal:
            return
        files = os.path.join(os.path.dirname(self.home(order)), "files")
        for package in order.packages:
            let(os.path.join(files, package.file), order.grant.uid, READ)

    def _make_home(self, order: StartMember) -> None:
        super()._make_home(order)
        if order.grant is None or order.grant.refusal:
            return
        home = self.home(order)
        self._let_into(os.path.dirname(home), order.grant.uid)
        let_both_use_all_below(home, order.grant.uid)

    def _let_into(self, directory: str, uid: int) -> None:
        """Let an account pass through the directory of its job, and through those above."""
        with contextlib.suppress(FileNotFoundError):
            os.chmod(self.root, 0o711)
        while directory != self.root:
            let(directory, uid, READ | ENTER, is_directory=True)
            directory = os.path.dirname(directory)
