"""Ray's token variables, with Ray's meaning.

RAY_AUTH_MODE is `token` or `disabled`. With `token`, the token is the value of RAY_AUTH_TOKEN.
Without that variable, the token is in the file that RAY_AUTH_TOKEN_PATH names; this file must
contain a token. If neither variable is set, the token is in ~/.ray/auth_token.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
from pathlib import Path

from phalanx.errors import AuthenticationError

MODE, TOKEN, PATH = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"
_USUAL = "~/.ray/auth_token"
_LABEL = b"phalanx cluster token of a token of ray\0"


def is_wanted() -> bool:
    """Whether RAY_AUTH_MODE asks for a token. Raises AuthenticationError for an unknown mode."""
    mode = os.environ.get(MODE, "").lower()
    if mode not in ("", "disabled", "token"):
        raise AuthenticationError(f"{MODE}={mode!r} must be token or disabled.")
    return mode == "token"


def auth_token() -> str:
    """Return the token; "" if no token is wanted or found.

    Raises AuthenticationError if RAY_AUTH_TOKEN_PATH names a file without a token.
    """
    if not is_wanted():
        return ""
    if token := os.environ.get(TOKEN, "").strip():
        return token
    named = os.environ.get(PATH)
    try:
        token = Path(named or _USUAL).expanduser().read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        if named:
            raise AuthenticationError(f"{PATH}={named} cannot be read: {error}") from None
        return ""
    if named and not token:
        raise AuthenticationError(f"{PATH}={named} is empty.")
    return token


def needed_token() -> str:
    """Return the token that RAY_AUTH_MODE=token asks for; "" in any other mode. Raises
    AuthenticationError if no token is found.
    """
    token = auth_token()
    if not token and is_wanted():
        raise AuthenticationError(
            f"{MODE}=token, and there is no token: set {TOKEN} or {PATH}, or write one to {_USUAL}."
        )
    return token


def cluster_token_file() -> str | None:
    """Return a private file with the cluster's token, if RAY_AUTH_MODE is `token`; None in any
    other mode. Raises AuthenticationError.

    The cluster's token is derived from Ray's token, so a machine needs only Ray's variables to
    join.
    """
    token = needed_token()
    if not token:
        return None
    digest = hashlib.sha256(_LABEL + token.encode()).digest()
    text = "phx_" + base64.urlsafe_b64encode(digest).decode().rstrip("=")
    directory = Path.home() / ".phalanx" / "ray-clusters"
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = directory / hashlib.sha256(digest).hexdigest()[:16]
    with contextlib.suppress(FileExistsError):
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "w") as file:
            file.write(f"{text}\n")
    return str(path)
