"""The commands that prepare the environment of a member, and that start the member's commands in
it.

The shell checks whether an environment is ready, so a start in a ready environment takes no longer
than a start without an environment.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec

from phalanx.model.environments import (
    DESCRIPTION,
    IMAGE,
    MODULES_IN_IMAGE,
    READY,
    USED,
    VARIABLE,
    Environment,
    image_named,
)
from phalanx.model.jobs.spec import JobSpec, Process, Template
from phalanx.model.packages import MARK, MODULES, Preparation, mark_of
from phalanx.protocol.bundle_messages import FILES, Command

_PREPARE = f"""
x=; is_ready=1
for k in $1; do
  d="${VARIABLE}/$k"
  [ "$k" = - ] || {{ [ -e "$d/{READY}" ] && : > "$d/{USED}"; }} || is_ready=
done
if [ "$is_ready" ]; then
  if [ "$3" = - ] || {{ read -r x < {MARK}; [ "$x" = "$3" ]; }} 2> /dev/null; then exit 0; fi
fi
exec "$PHALANX_PYTHON" -P -m phalanx.runtime.environments.prepare "${VARIABLE}" "$2"
"""
_READY = f"""
d="${VARIABLE}/$1"
if [ "$1" != - ]; then
  if [ ! -e "$d/{READY}" ]; then
    "$PHALANX_PYTHON" -P -m phalanx.runtime.environments.prepare "${VARIABLE}" "$2" >&2 || exit 126
  fi
  : > "$d/{USED}"; exec 9< "$d/{READY}"; flock -s 9 2> /dev/null
fi
m=
if [ "$3" != - ]; then
  m="$PWD:"; for p in "$PWD"/{MODULES}/*; do [ -d "$p" ] && m="$m$p:"; done
fi
"""
"""Shell code before each command. If somebody has deleted the environment in the meantime, this
code prepares the environment again.
"""
_ENTER = f"""{_READY}
if [ "$1" != - ]; then
  VIRTUAL_ENV="$d"; PATH="$d/bin:$PATH"; export VIRTUAL_ENV PATH; unset PYTHONHOME
fi
if [ "$m" ]; then PYTHONPATH="$m$PYTHONPATH"; export PYTHONPATH; fi
shift 3; exec "$@"
"""
_ENTER_IMAGE = f"""{_READY}
{MODULES_IN_IMAGE}="$m"; export {MODULES_IN_IMAGE}
shift 3; exec "$PHALANX_PYTHON" -P -m phalanx.runtime.containers.run "$d" "$@"
"""
_CLEAN_UP = 'exec "$PHALANX_PYTHON" -P -m phalanx.runtime.containers.leftovers'
_FILE = f"{FILES}/{DESCRIPTION}"


def preparation(job: JobSpec, group: Template, variables: Mapping[str, str], umask: int) -> Command:
    """Return the command that prepares the environment of a member of this job and group.

    The command has the variables of the member, which may name package indexes and proxies.
    """
    keys = keys_of(job, group) or "-"
    argv = ["sh", "-c", _PREPARE, "prepare", keys, _FILE, mark_of(job.packages)]
    return Command(argv, dict(variables), umask=umask)


def description(job: JobSpec) -> str:
    """Return the text of the file that describes the preparation of all members."""
    images = {one: None for group in job.groups for one in _images(job, group.template)}
    about = Preparation(job.environment, job.packages, mark_of(job.packages), tuple(images))
    return msgspec.json.encode(about).decode()


def keys_of(job: JobSpec, group: Template) -> str:
    """Return the keys of the environments of a group's members, separated by spaces; "" for members
    without environments.
    """
    found = _images(job, group) if job.environment is None else [job.environment]
    return " ".join(one.key for one in found)


def _images(job: JobSpec, group: Template) -> list[Environment]:
    """Return the images that a group's processes name, without duplicates."""
    processes = (*group.before, *group.processes)
    found = (environment_for(job, process) for process in processes)
    return list(dict.fromkeys(one for one in found if one is not None and one.is_optional))


def cleaning(job: JobSpec, group: Template) -> Command | None:
    """Return the command that removes the containers of a member that was killed; None for a member
    without images.
    """
    is_image = job.environment is not None and job.environment.tool == IMAGE
    if not is_image and not _images(job, group):
        return None
    return Command(["sh", "-c", _CLEAN_UP], {}, "/")


def environment_for(job: JobSpec, process: Process) -> Environment | None:
    """Return the environment in which a process of a job runs; None for the node's own
    environment.
    """
    if job.environment is not None or not process.image:
        return job.environment
    return image_named(process.image, is_optional=True)


def inside(
    job: JobSpec, process: Process, argv: Sequence[str], variables: Collection[str]
) -> list[str]:
    """Return the words of a command that runs in the environment of its process. `variables`: the
    names of the command's variables.
    """
    environment = environment_for(job, process)
    if environment is None and not job.packages:
        return list(argv)
    key = "-" if environment is None else environment.key
    about = ["phalanx", key, _FILE, mark_of(job.packages)]
    if environment is not None and environment.tool == IMAGE:
        return ["sh", "-c", _ENTER_IMAGE, *about, ",".join(sorted(variables)), *argv]
    return ["sh", "-c", _ENTER, *about, *argv]
