"""The commands that prepare a member's environment, and that begin its commands in there.

The shell looks whether the environment is ready, so a start in a ready environment takes no longer
than a start without one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from phalanx.model.environments import DESCRIPTION, READY, USED, VARIABLE, Environment
from phalanx.protocol.bundle_messages import FILES, Command

_PREPARE = f"""
d="${VARIABLE}/$1"
if [ -e "$d/{READY}" ] && : > "$d/{USED}"; then exit 0; fi
exec "$PHALANX_PYTHON" -m phalanx.runtime.environments.prepare "${VARIABLE}" "$2"
"""
_ENTER = f"""
d="${VARIABLE}/$1"
if [ ! -e "$d/{READY}" ]; then
  "$PHALANX_PYTHON" -m phalanx.runtime.environments.prepare "${VARIABLE}" "$2" >&2 || exit 126
fi
: > "$d/{USED}"; exec 9< "$d/{READY}"; flock -s 9 2> /dev/null
VIRTUAL_ENV="$d"; PATH="$d/bin:$PATH"; export VIRTUAL_ENV PATH; unset PYTHONHOME
shift 2; exec "$@"
"""
"""The environment is prepared again if somebody has deleted it in the meantime."""
_FILE = f"{FILES}/{DESCRIPTION}"


def preparation(environment: Environment, variables: Mapping[str, str], umask: int) -> Command:
    """Return the command that prepares an environment.

    It has the variables of the member, which may name indexes of packages and proxies.
    """
    argv = ["sh", "-c", _PREPARE, "prepare", environment.key, _FILE]
    return Command(argv, dict(variables), umask=umask)


def description(environment: Environment) -> str:
    """Return the text of the file that describes an environment."""
    return msgspec.json.encode(environment).decode()


def inside(environment: Environment | None, argv: Sequence[str]) -> list[str]:
    """Return the words of a command that runs in an environment; None: in that of its node."""
    if environment is None:
        return list(argv)
    return ["sh", "-c", _ENTER, "phalanx", environment.key, _FILE, *argv]
