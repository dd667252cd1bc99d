"""The commands that prepare a member, and that begin its commands in what was prepared.

The shell looks whether an environment is ready, so a start in a ready environment takes no longer
than a start without one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from phalanx.model.environments import DESCRIPTION, READY, USED, VARIABLE
from phalanx.model.jobs.spec import JobSpec
from phalanx.model.packages import MARK, MODULES, Preparation, mark_of
from phalanx.protocol.bundle_messages import FILES, Command

_PREPARE = f"""
d="${VARIABLE}/$1"; x=
if [ "$1" = - ] || {{ [ -e "$d/{READY}" ] && : > "$d/{USED}"; }}; then
  if [ "$3" = - ] || {{ read -r x < {MARK}; [ "$x" = "$3" ]; }} 2> /dev/null; then exit 0; fi
fi
exec "$PHALANX_PYTHON" -m phalanx.runtime.environments.prepare "${VARIABLE}" "$2"
"""
_ENTER = f"""
if [ "$1" != - ]; then
  d="${VARIABLE}/$1"
  if [ ! -e "$d/{READY}" ]; then
    "$PHALANX_PYTHON" -m phalanx.runtime.environments.prepare "${VARIABLE}" "$2" >&2 || exit 126
  fi
  : > "$d/{USED}"; exec 9< "$d/{READY}"; flock -s 9 2> /dev/null
  VIRTUAL_ENV="$d"; PATH="$d/bin:$PATH"; export VIRTUAL_ENV PATH; unset PYTHONHOME
fi
if [ "$3" != - ]; then
  m=; for p in "$PWD"/{MODULES}/*; do [ -d "$p" ] && m="$m$p:"; done
  PYTHONPATH="$PWD:$m$PYTHONPATH"; export PYTHONPATH
fi
shift 3; exec "$@"
"""
"""The environment is prepared again if somebody has deleted it in the meantime."""
_FILE = f"{FILES}/{DESCRIPTION}"


def preparation(job: JobSpec, variables: Mapping[str, str], umask: int) -> Command:
    """Return the command that prepares a member of this job.

    It has the variables of the member, which may name indexes of packages and proxies.
    """
    argv = ["sh", "-c", _PREPARE, "prepare", key_of(job) or "-", _FILE, mark_of(job.packages)]
    return Command(argv, dict(variables), umask=umask)


def description(job: JobSpec) -> str:
    """Return the text of the file that describes the preparation."""
    about = Preparation(job.environment, job.packages, mark_of(job.packages))
    return msgspec.json.encode(about).decode()


def key_of(job: JobSpec) -> str:
    """Return the key of a job's environment; "" without one."""
    return "" if job.environment is None else job.environment.key


def inside(job: JobSpec, argv: Sequence[str]) -> list[str]:
    """Return the words of a command that runs in what was prepared for its job."""
    if not job.is_prepared_first:
        return list(argv)
    return ["sh", "-c", _ENTER, "phalanx", key_of(job) or "-", _FILE, mark_of(job.packages), *argv]
