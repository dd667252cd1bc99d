"""The cluster's token: a secret in a file that only its owner can read.

Only gateways read it. It appears in no argument, environment or log; `PHALANX_TOKEN_FILE` names the
file, not the token.
"""

from __future__ import annotations

import base64
import contextlib
import os
import re
import secrets
import stat

from phalanx.errors import AuthenticationError

TOKEN_FILE = "PHALANX_TOKEN_FILE"
_TOKEN_BYTES = 32
_FORM = re.compile(r"phx_([A-Za-z0-9_-]{43})")
_IN_TEXT = re.compile(r"phx_[A-Za-z0-9_-]+")
_MAX_BYTES = 256


def default_path() -> str:
    """Return the path in PHALANX_TOKEN_FILE, else ~/.phalanx/token."""
    return os.environ.get(TOKEN_FILE) or os.path.join(os.path.expanduser("~"), ".phalanx", "token")


def ensure(path: str) -> None:
    """Make a token at `path` unless one exists; a missing directory is made with mode 0700.

    When several processes start at once, one makes the token and all find it complete.
    """
    if os.path.lexists(path):
        return
    directory = os.path.dirname(os.path.abspath(path))
    os.makedirs(directory, mode=0o700, exist_ok=True)
    text = "phx_" + base64.urlsafe_b64encode(secrets.token_bytes(_TOKEN_BYTES)).decode().rstrip("=")
    draft = os.path.join(directory, f".token-{secrets.token_hex(8)}")
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "w") as file:
            file.write(text + "\n")
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
    finally:
        os.unlink(draft)


def read(path: str) -> bytes:
    """Return the 32 secret bytes of the token at `path`.

    Raises AuthenticationError, naming the file, when it is missing, malformed, a link, another
    user's, or open to others.
    """
    form = _FORM.fullmatch(read_text(path))
    if form is None:
        raise AuthenticationError(f"{path} does not contain a token: a token looks like phx_….")
    return base64.urlsafe_b64decode(form[1] + "=")


def read_text(path: str) -> str:
    """Return the text of a private file with a token. Raises AuthenticationError as `read` does."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise AuthenticationError(
            f"there is no token at {path}: copy the head's there (mode 0600), or name its file in "
            f"{TOKEN_FILE}."
        ) from None
    except OSError as error:
        raise AuthenticationError(
            f"the token at {path} cannot be read: {error.strerror}. It must be a file, not a link."
        ) from None
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid():
            raise AuthenticationError(f"the token at {path} must be a file of this user.")
        if found.st_mode & 0o077:
            raise AuthenticationError(
                f"the token at {path} is open to other users (mode {found.st_mode & 0o777:04o}): "
                "make a new one, since this one may be known; the mode must be 0600."
            )
        return os.read(fd, _MAX_BYTES).decode("ascii", "replace").strip()
    finally:
        os.close(fd)


def redact(text: str) -> str:
    """Return `text` without tokens; every error that a process writes goes through this."""
    return _IN_TEXT.sub("phx_…", text)
