"""Steps that change a machine: directories, files and commands. Each step can describe itself."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import subprocess
from typing import NamedTuple, Protocol


class Step(Protocol):
    """One change of the machine."""

    def description(self, root: str) -> str:
        """Return a description of the step, for display."""
        ...

    def take(self, root: str) -> None:
        """Make the change below the directory `root`. Raises OSError and RuntimeError."""
        ...


class Directory(NamedTuple):
    """The step that makes a directory with a mode. An existing directory gets the mode and the
    owner.
    """

    path: str
    mode: int
    owner: str = ""
    """The account and group; empty for this process's own."""

    def description(self, root: str) -> str:
        """Return a description of the step."""
        of = f", owner {self.owner}" if self.owner else ""
        return f"make the directory {root}{self.path} (mode {self.mode:04o}{of})"

    def take(self, root: str) -> None:
        """Make the directory. Below another root its owner is not set, because a package manager
        sets it.
        """
        is_new = not os.path.isdir(root + self.path)
        os.makedirs(root + self.path, exist_ok=True)
        if is_new or self.owner:
            os.chmod(root + self.path, self.mode)
        if self.owner and not root:
            shutil.chown(self.path, self.owner, self.owner)


class File(NamedTuple):
    """The step that writes a file."""

    path: str
    mode: int
    text: str
    keeps: bool = False
    """Whether an existing file is kept unchanged."""
    is_long: bool = False
    """Whether the text is too long for the description."""

    def description(self, root: str) -> str:
        if self.keeps and os.path.lexists(root + self.path):
            return f"keep the file {root}{self.path}"
        if self.is_long:
            count = len(self.text.splitlines())
            return f"write the file {root}{self.path} (mode {self.mode:04o}, {count} lines)"
        lines = "".join(f"\n    | {line}".rstrip() for line in self.text.splitlines())
        return f"write the file {root}{self.path} (mode {self.mode:04o}):{lines}"

    def take(self, root: str) -> None:
        """Write the file as a whole."""
        path = root + self.path
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if self.keeps and os.path.lexists(path):
            return
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path + ".new")
        fd = os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, self.mode)
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            os.fchmod(fd, self.mode)
            file.write(self.text)
        os.rename(path + ".new", path)


class Removal(NamedTuple):
    """The step that deletes a file."""

    path: str

    def description(self, root: str) -> str:
        """Return a description of the step."""
        return f"delete the file {root}{self.path}"

    def take(self, root: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(root + self.path)


class Run(NamedTuple):
    """The step that runs a command of the machine. Below another root the command is not run."""

    words: tuple[str, ...]

    def description(self, root: str) -> str:
        """Return a description of the step."""
        line = shlex.join(self.words)
        return f"leave out, below another root: {line}" if root else f"run: {line}"

    def take(self, root: str) -> None:
        """Run the command. If it fails, raises RuntimeError with the last line of its output."""
        if root:
            return
        done = subprocess.run(self.words, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            reason = (done.stderr.strip() or done.stdout.strip() or "no reason").splitlines()[-1]
            raise RuntimeError(f"{shlex.join(self.words)} failed ({done.returncode}): {reason}")
