"""The program that prepares an environment before a job or a worker begins in it.

It runs as the owner of the work. Its output is the log of the preparation; the last lines say why
an environment could not be prepared.
"""

from __future__ import annotations

import os
import sys

import msgspec

from phalanx.model.environments import Environment
from phalanx.model.packages import Preparation
from phalanx.runtime.environments.building import BuildError, build
from phalanx.runtime.environments.cache import Cache
from phalanx.runtime.environments.tools import ToolNotFoundError
from phalanx.runtime.environments.unpacking import UnpackError, unpack_all


def say(text: str) -> None:
    """Print a line of the log."""
    print(f"phalanx: {text}", flush=True)


def prepare(directory: str, environment: Environment) -> None:
    """Prepare an environment in the cache of this directory."""
    cache = Cache(directory, say=say)
    place = cache.prepare(environment.key, lambda place: build(environment, place, say))
    say(f"the environment is ready: {place}")


def main() -> int:
    """Prepare what a member or a worker needs. Returns the exit code.

    The arguments are the directory of environments, and the file that describes the preparation.
    "-" in place of the file means that standard input describes an environment. Packages are beside
    the file, and are unpacked into the current directory.
    """
    os.umask(0o077)
    directory, path = sys.argv[1:]
    try:
        if path == "-":
            prepare(directory, msgspec.json.decode(sys.stdin.buffer.read(), type=Environment))
            return 0
        with open(path, "rb") as file:
            wanted = msgspec.json.decode(file.read(), type=Preparation)
        if wanted.packages:
            unpack_all(wanted.packages, os.path.dirname(path), os.getcwd(), wanted.mark)
        for one in filter(None, (wanted.environment, *wanted.images)):
            prepare(directory, one)
        return 0
    except (BuildError, ToolNotFoundError, UnpackError) as error:
        say(f"the environment could not be prepared: {error}")
    except OSError as error:
        at = f" ({error.filename})" if error.filename else ""
        say(f"the environment could not be prepared: {error.strerror}{at}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
