"""Errors about single files of a package, in sentences that name the file and say what helps."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from phalanx.model.raw_bytes import writable

IGNORE = "leave it out with .phalanxignore or `excludes`"
EXCLUDE = "leave it out with `excludes`"


@contextlib.contextmanager
def naming_the_file(path: str, leave_out: str = IGNORE) -> Iterator[None]:
    """Raise ValueError with a sentence if the block, which packs `path`, cannot read a file.
    `leave_out` says how a package is made without a file.
    """
    try:
        yield
    except OSError as error:
        if error.filename is None:
            raise ValueError(f"{path} cannot be packed: {error.strerror or error}") from None
        is_below = Path(error.filename) != Path(os.path.abspath(os.path.expanduser(path)))
        helps = f". Make it readable, or {leave_out}." if is_below else ""
        raise ValueError(f"{error.filename} cannot be read: {error.strerror}{helps}") from None


def check_name(path: Path, name: str, leave_out: str = IGNORE) -> None:
    """Raise ValueError if a file's name in its package is not UTF-8, as names in zip files are."""
    if writable(name) != name:
        raise ValueError(
            f"{writable(str(path))} has a name that is not UTF-8, and a package cannot hold it: "
            f"rename the file, or {leave_out}."
        )
