"""Sends the requests of commands to the daemons of this machine, and ends commands that fail."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from phalanx.cli.ending import Ended, say_error

if TYPE_CHECKING:
    from phalanx.protocol.requests.request import Request

R = TypeVar("R")

FAILED = 1
USAGE = 2
NOT_FOUND = 3
NOT_ALLOWED = 4
NEVER_FITS = 5
"""The exit code of a command whose work could never fit into the cluster."""

ANSWER_S = 10.0
"""Seconds for which a command waits for the head's answer."""


def fail(text: str, code: int = FAILED) -> NoReturn:
    """End the command with an exit code and one sentence on standard error."""
    say_error(text)
    raise Ended(code)


def json_object(option: str, text: str | None, example: str) -> dict[str, Any] | None:
    """Return the JSON object in an option's value; None if the option is not given. If the value is
    not a JSON object, ends the command with an example.
    """
    try:
        return read_object(option, text, example)
    except ValueError as error:
        fail(str(error), USAGE)


def read_object(option: str, text: str | None, example: str) -> dict[str, Any] | None:
    """Return the JSON object in an option's value, like `json_object`. Raises ValueError for any
    other text.
    """
    if text is None:
        return None
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ValueError(f"--{option} takes a JSON object, such as '{example}', not {text!r}.")
    return found


def ask(
    address: str | None,
    request: Request[R],
    timeout_s: float = ANSWER_S,
    with_programs: bool = False,
) -> R:
    """Return the answer of a cluster's head, asked through one of its daemons on this machine.

    If `address` is None, the cluster is the one in PHALANX_ADDRESS, that of the current login, or
    the only one on this machine. With `with_programs`, it may also be the only session of a
    program. An address such as `ray:auto` means a cluster of that engine. The command ends if there
    is no such cluster, or if the answer is an error.
    """
    named = address or os.environ.get("PHALANX_ADDRESS") or ""
    if (engine := _engine_of(named)) is not None:
        return _answered(partial(_ask_elsewhere, engine, named, request))
    from phalanx.runtime.daemons.visitor import ask_daemon

    troubles = []
    for session, daemon in daemons_of(address, with_programs):
        try:
            return _answered(partial(ask_daemon, session, daemon, request, timeout_s))
        except ConnectionError as error:
            troubles.append(str(error))
    fail(f"The head gives no answer: {'; '.join(troubles)}.")


def _answered(question: Callable[[], R]) -> R:
    """Call `question`, and return its result. Ends the command for any error except
    ConnectionError.
    """
    from phalanx.errors import (
        AuthenticationError,
        GangInfeasibleError,
        JobNotFoundError,
        NotAllowedError,
        PhalanxError,
    )

    try:
        return question()
    except TimeoutError as error:
        fail(f"The head gives no answer: {error}.")  # another daemon would not change that
    except PhalanxError as error:
        if isinstance(error, JobNotFoundError):
            fail(str(error), NOT_FOUND)
        if isinstance(error, NotAllowedError | AuthenticationError):
            fail(str(error), NOT_ALLOWED)
        fail(str(error), NEVER_FITS if isinstance(error, GangInfeasibleError) else FAILED)
    except ValueError as error:
        fail(str(error), NOT_FOUND if "does not exist" in str(error) else USAGE)
    except OverflowError as error:
        fail(f"A number is too large: {error}.", USAGE)
    except TypeError as error:
        fail(str(error))


def _ask_elsewhere(engine: str, address: str, request: Request[R]) -> R:
    from phalanx.runtime.engine import starting

    try:
        return starting.entry_of(engine).ask(address, request, ANSWER_S)
    except ConnectionError as error:
        fail(str(error))


def is_elsewhere(address: str | None) -> bool:
    """Whether the address (by default, PHALANX_ADDRESS) names a cluster of another engine, such as
    Ray.
    """
    return _engine_of(address or os.environ.get("PHALANX_ADDRESS") or "") is not None


def remote_head(address: str | None) -> str:
    """Return the address of a cluster's head if commands here can reach only the head, with a
    token. Return "" if a daemon of the cluster runs here.
    """
    from phalanx.runtime.daemons.daemon_files import REMOTE

    _, daemon = daemons_of(address)[0]
    return str(daemon.address) if daemon.kind == REMOTE else ""


def _engine_of(address: str) -> str | None:
    if not address.partition(":")[0].isidentifier():
        return None  # a HOST:PORT, or no address
    from phalanx.runtime.engine import starting

    return starting.engine_of(address)


def daemons_of(address: str | None, with_programs: bool = False) -> list[tuple[Any, Any]]:
    """Return the daemons through which a cluster is asked. Ends the command if no such daemon
    runs.
    """
    from phalanx.errors import AuthenticationError
    from phalanx.runtime.daemons.finding import find_daemons

    try:
        return find_daemons(address, with_programs)
    except ConnectionError as error:
        fail(str(error))
    except AuthenticationError as error:
        fail(str(error), NOT_ALLOWED)
    except ValueError as error:
        fail(str(error), USAGE)
