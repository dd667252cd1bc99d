"""Checks before connecting to Ray, for mistakes with which Ray would hang or fail without a
message.
"""

from __future__ import annotations

import contextlib
import re
import socket
import threading
from collections.abc import Callable, Iterator

import ray

from phalanx.errors import AuthenticationError

PROBE_S = 2.0
SILENT_S = 4.0
"""Seconds without an answer from Ray after which a warning names the possible causes."""
OLDEST = (2, 49)
"""The oldest usable Ray.

Earlier versions lack label selectors of bundles, which pin gangs to nodes.
"""
_TOKEN = (
    "a program that joins needs the cluster's token: RAY_AUTH_MODE=token with RAY_AUTH_TOKEN or "
    "RAY_AUTH_TOKEN_PATH as its nodes have it, or RAY_AUTH_MODE=disabled if they have none"
)


def check_version(version: str = ray.__version__) -> None:
    """Raise ImportError for a version of Ray that is too old."""
    found = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if found < OLDEST:
        raise ImportError(
            f"Ray {version} is too old: gangs need {OLDEST[0]}.{OLDEST[1]} or newer, on all nodes."
        )


def check_reachable(address: str | None) -> None:
    """Raise ConnectionError when nothing listens at HOST:PORT or ray://HOST:PORT.

    Ray itself would try for a minute, and its error would not name the address.
    """
    if address in (None, "auto", "local"):
        return
    host, _, port = str(address).removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        raise ValueError(
            f"{address!r} is not an address of a Ray cluster. Give HOST:PORT, auto or local."
        )
    try:
        socket.create_connection((host, int(port)), timeout=PROBE_S).close()
    except OSError as error:
        reason = (error.strerror or "no answer").lower()
        raise ConnectionError(
            f"Nothing listens at {address} ({reason}): `ray start --head` starts a Ray cluster "
            "there, and `ray status` on its machine shows whether one runs."
        ) from None


@contextlib.contextmanager
def explained_errors(address: str | None, warn: Callable[[str], None]) -> Iterator[None]:
    """Translate Ray's errors during the connection into errors that say what to do. `warn` is
    called when Ray waits silently, for example because the token is wrong.
    """
    waits = threading.Timer(
        SILENT_S, warn, (f"Ray at {address or 'auto'} does not answer yet; {_TOKEN}.",)
    )
    waits.daemon = True
    waits.start()
    try:
        yield
    except RuntimeError as error:
        if "Version mismatch" not in str(error):
            raise
        raise ConnectionError(
            f"{' '.join(str(error).split())} Ray needs the same versions of Ray and Python "
            "everywhere: install the cluster's here."
        ) from None
    except ConnectionError as error:
        if address in (None, "auto"):
            raise ConnectionError(
                f"No Ray cluster was found on this machine: `ray start --head` starts one, and "
                f"'ray:HOST:PORT' names another's. ({error})"
            ) from None
        raise AuthenticationError(
            f"Something listens at {address}, but no Ray cluster accepted this program: {_TOKEN}. "
            f"({error})"
        ) from None
    finally:
        waits.cancel()
