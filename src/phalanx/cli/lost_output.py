"""Ends a command whose output cannot be written: the disk is full, or the reader has gone."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from typing import TextIO

_UNWRITABLE = frozenset(
    {
        *(errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ESTALE),
        *(errno.EBADF, errno.EAGAIN, errno.ENXIO),
    }
)
_exit_code = 0


def is_lost(error: BaseException | None) -> bool:
    """Whether this error means that the output cannot be written. Errors of files that the command
    itself opened do not count.
    """
    return isinstance(error, OSError) and error.errno in _UNWRITABLE and error.filename is None


def lose_output(error: OSError, prefix: str = "") -> None:
    """Send all further output to /dev/null. Unless the reader of the output has gone, print a line
    that says why. `prefix` is printed before that line.
    """
    if not isinstance(error, BrokenPipeError):
        global _exit_code
        _exit_code = 1
        _print_error(f"{prefix}The output cannot be written: {error.strerror}.")
    _drop(sys.stdout)


def exit_code() -> int:
    """Return 1 if a part of the output was lost because of a full disk or another error; otherwise
    0. The process exits with at least this code. If the reader of the output has gone, that is no
    error.
    """
    return _exit_code


def drop_messages() -> None:
    """Send all further messages on standard error to /dev/null."""
    _drop(sys.stderr)


def _print_error(text: str) -> None:
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        drop_messages()


def _drop(stream: TextIO | None) -> None:
    if stream is None:
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
    with contextlib.suppress(OSError):
        stream.flush()
