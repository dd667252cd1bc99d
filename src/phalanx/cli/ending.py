"""How commands end: an exception for an early end, and the exit of the process."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
from collections.abc import Iterator
from contextvars import ContextVar

from phalanx.cli.lost_output import drop_messages, exit_code, is_lost, lose_output
from phalanx.cli.quick_start import hasten
from phalanx.cli.table import open_input, say


class Ended(Exception):
    """Raised to end a command with an exit code, after its message was printed."""

    def __init__(self, code: int = 0) -> None:
        super().__init__(code)
        self.code = code
        """The exit code of the process."""


_prefix: ContextVar[str] = ContextVar("prefix", default="")


@contextlib.contextmanager
def prefixed(prefix: str) -> Iterator[None]:
    """Print `prefix`, such as `sbatch: error: `, before the text of each error in the block."""
    outer = _prefix.set(prefix)
    try:
        yield
    finally:
        _prefix.reset(outer)


def say_error(text: str) -> None:
    """Print an error on standard error."""
    say(f"{_prefix.get()}{text}", err=True)


@contextlib.contextmanager
def exiting(prefix: str = "") -> Iterator[None]:
    """Run a command, and exit with its code. Exit with 1 if its output cannot be written: silently
    if the reader of the output has gone, otherwise with a line that says why. `prefix` is printed
    before the text of an error.
    """
    hasten()
    open_input()
    code = 0
    try:
        try:
            yield
        except Ended as ended:
            code = ended.code
        _leave(code or exit_code())
    except OSError as error:
        if not is_lost(error):
            raise
        lose_output(error, prefix)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        from phalanx.errors import CurrentDirectoryError, SystemFailureError

        if not isinstance(error, CurrentDirectoryError | SystemFailureError):
            raise
        say(f"{prefix}{error}", err=True)
        sys.exit(1)


def _leave(code: int) -> None:
    """End the process with this code. If nothing waits for the interpreter's own shutdown, the
    shutdown is left out, because it takes a tenth of a short command's time.

    Raises OSError if the output cannot be written.
    """
    if sys.stdout is not None:
        sys.stdout.flush()
    try:
        if sys.stderr is not None:
            sys.stderr.flush()
    except OSError:
        drop_messages()
    if not atexit._ncallbacks() and "threading" not in sys.modules:
        os._exit(code)
    if code:
        sys.exit(code)
