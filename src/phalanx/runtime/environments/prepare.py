"""The program that prepares an environment before a job or a worker begins in it.

It runs as the owner of the work. Its output is the log of the preparation; the last lines say why
an environment could not be prepared.
"""

from __future__ import annotations

import os
import sys

import msgspec

from phalanx.model.environments import Environment
from phalanx.runtime.environments.building import BuildError, build
from phalanx.runtime.environments.cache import Cache
from phalanx.runtime.environments.tools import ToolNotFoundError


def say(text: str) -> None:
    """Print a line of the log."""
    print(f"phalanx: {text}", flush=True)


def prepare(directory: str, environment: Environment) -> int:
    """Prepare an environment. Returns the exit code of the program."""
    cache = Cache(directory, say=say)
    try:
        place = cache.prepare(environment.key, lambda place: build(environment, place, say))
    except (BuildError, ToolNotFoundError) as error:
        say(f"the environment could not be prepared: {error}")
        return 1
    except OSError as error:
        at = f" ({error.filename})" if error.filename else ""
        say(f"the environment could not be prepared: {error.strerror}{at}")
        return 1
    say(f"the environment is ready: {place}")
    return 0


def main() -> int:
    """Prepare an environment. The arguments are the directory of environments, and the file that
    describes this one; "-" reads standard input.
    """
    os.umask(0o077)
    directory, path = sys.argv[1:]
    with open(0 if path == "-" else path, "rb") as file:
        return prepare(directory, msgspec.json.decode(file.read(), type=Environment))


if __name__ == "__main__":
    sys.exit(main())
