"""The cluster's token: a secret in a file that only its owner can read.

While the token is rotated, the file has two lines, each with a token: gateways present the first
and accept both.

Only gateways read the token. It appears in no argument, variable or log: `PHALANX_TOKEN_FILE` names
the file.
"""

from __future__ import annotations

import base64
import contextlib
import os
import re

from phalanx.errors import AuthenticationError, SystemFailureError
from phalanx.runtime.os.private_files import (
    WHAT_HELPS,
    NotPrivateError,
    make_directory,
    read_private,
    write_draft,
)

TOKEN_FILE = "PHALANX_TOKEN_FILE"
_TOKEN_BYTES = 32
_FORM = re.compile(r"phx_([A-Za-z0-9_-]{43})")
_IN_TEXT = re.compile(r"phx_[A-Za-z0-9_-]+")
_MAX_BYTES = 256


def default_path() -> str:
    """Return the path in PHALANX_TOKEN_FILE or, if it is not set, ~/.phalanx/token."""
    return os.environ.get(TOKEN_FILE) or os.path.join(os.path.expanduser("~"), ".phalanx", "token")


def ensure(path: str) -> None:
    """Make a token at `path` unless one exists. A missing directory is made with mode 0700.

    If several processes start at the same time, one makes the token, and all others find it
    complete. Raises SystemFailureError if no token can be written there.
    """
    if os.path.lexists(path):
        return
    try:
        _make(path)
    except OSError as error:
        raise SystemFailureError(
            f"A new token cannot be written to {path}: {error.strerror or error}. {WHAT_HELPS}"
        ) from None


def _make(path: str) -> None:
    make_directory(os.path.dirname(os.path.abspath(path)))
    draft = _draft(path, [_new()])
    try:
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
    finally:
        os.unlink(draft)


def read(path: str) -> bytes:
    """Return the 32 secret bytes of the token at `path`; during a rotation, those of the first
    token.

    Raises AuthenticationError with the file's name, if the file is missing, malformed or a link,
    belongs to another user, or is open to others.
    """
    return read_all(path)[0]


def read_all(path: str) -> list[bytes]:
    """Return the secret bytes of all tokens at `path`, one or two. Raises as `read` does."""
    return [secret_bytes(line, path) for line in _lines(path)]


def secret_bytes(text: str, path: str = "this text") -> bytes:
    """Return the 32 secret bytes of a token. `path`: where the token was read. Raises
    AuthenticationError if the text is no token.
    """
    return base64.urlsafe_b64decode(_form(path, text) + "=")


def add_next(path: str) -> None:
    """Begin a rotation: add a new token. From then on, every process that reads the file accepts
    it, too.

    Raises ValueError during a rotation, and AuthenticationError as `read` does.
    """
    lines = _lines(path)
    if len(lines) > 1:
        raise ValueError(f"{path} has two tokens already: a rotation is under way.")
    _replace(path, [*lines, _new()])


def show_next(path: str) -> None:
    """Present the new token from now on, and still accept the previous one. Raises ValueError if
    there is no rotation.
    """
    _replace(path, _both(path)[::-1])


def drop_last(path: str) -> None:
    """End a rotation: the second token in the file becomes invalid. Raises ValueError if there is
    no rotation.
    """
    _replace(path, _both(path)[:1])


def _both(path: str) -> list[str]:
    lines = _lines(path)
    if len(lines) < 2:
        raise ValueError(
            f"{path} has one token: no rotation is under way. `phalanx token cluster add` begins "
            "one."
        )
    return lines


def _lines(path: str) -> list[str]:
    lines = read_text(path).split()
    if not 1 <= len(lines) <= 2:
        raise AuthenticationError(f"{path} does not contain a token: a token looks like phx_….")
    for line in lines:
        _form(path, line)
    return lines


def _form(path: str, line: str) -> str:
    form = _FORM.fullmatch(line)
    if form is None:
        raise AuthenticationError(f"{path} does not contain a token: a token looks like phx_….")
    return form[1]


def _new() -> str:
    return "phx_" + base64.urlsafe_b64encode(os.urandom(_TOKEN_BYTES)).decode().rstrip("=")


def _replace(path: str, lines: list[str]) -> None:
    draft = _draft(path, lines)
    try:
        os.rename(draft, path)
    except BaseException:
        os.unlink(draft)
        raise


def _draft(path: str, lines: list[str]) -> str:
    """Write tokens to a new private file next to `path`. Returns its name."""
    return write_draft(path, "".join(f"{line}\n" for line in lines).encode())


def read_text(path: str) -> str:
    """Return the text of a private file with a token. Raises AuthenticationError as `read` does."""
    try:
        return read_private(path, _MAX_BYTES).decode("ascii", "replace").strip()
    except FileNotFoundError:
        raise AuthenticationError(
            f"there is no token at {path}: copy the head's there (mode 0600), or name its file in "
            f"{TOKEN_FILE}."
        ) from None
    except OSError as error:
        raise AuthenticationError(
            f"the token at {path} cannot be read: {error.strerror}. It must be a file, not a link."
        ) from None
    except NotPrivateError as error:
        if error.mode is None:
            raise AuthenticationError(f"the token at {path} must be a file of this user.") from None
        raise AuthenticationError(
            f"the token at {path} is open to other users (mode {error.mode:04o}): make a new one, "
            "since this one may be known; the mode must be 0600."
        ) from None


def redact(text: str) -> str:
    """Return `text` without tokens. Every error that a process writes goes through this
    function.
    """
    return _IN_TEXT.sub("phx_…", text)
