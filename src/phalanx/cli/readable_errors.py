"""Reports expected errors of a command with one sentence and an exit code."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from phalanx.cli.reach import FAILED, NOT_ALLOWED, USAGE, fail


@contextlib.contextmanager
def failing_readably() -> Iterator[None]:
    """End the command if the block raises an expected error, with one sentence on standard
    error.
    """
    from phalanx.errors import AuthenticationError, PhalanxError

    try:
        yield
    except AuthenticationError as error:
        fail(sentence(error), NOT_ALLOWED)
    except (TypeError, ValueError) as error:
        fail(sentence(error), USAGE)
    except (PhalanxError, OSError) as error:
        fail(sentence(error), FAILED)


def sentence(error: BaseException) -> str:
    """Return an error as a sentence. A name or path at the beginning stays unchanged."""
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename} cannot be used: {error.strerror}"
    text = str(error) or type(error).__name__
    return text[0].upper() + text[1:] if text.split()[0].isalpha() else text
