"""Phalanx under Ray's module names, so that an unchanged Ray program runs.

Either the program calls `install()` before it imports ray, or it is run by `python -m
phalanx.compat.ray script.py`. The rest of Ray's names is in `phalanx.adapters.ray`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from phalanx.adapters.ray.alias import (
    LIBRARIES_MARKER,
    RAY_COMMIT,
    RAY_VERSION,
    install,
    run_script,
    uninstall,
)

__all__ = [
    "LIBRARIES_MARKER",
    "RAY_COMMIT",
    "RAY_VERSION",
    "install",
    "run_script",
    "uninstall",
]

USAGE = "usage: python -m phalanx.compat.ray [--libraries] script.py [arguments]"


def main(words: Sequence[str]) -> None:
    """Run the script on the command line, with Ray's module names.

    Exits with the usage if no script is given, and with a message if the script does not exist.
    """
    wants_libraries = words[:1] == ["--libraries"]
    words = words[1:] if wants_libraries else words
    if not words:
        raise SystemExit(USAGE)
    if not Path(words[0]).is_file():
        raise SystemExit(f"python -m phalanx.compat.ray: no file {words[0]!r}")
    run_script(words[0], words[1:], libraries=wants_libraries or None)


if __name__ == "__main__":
    main(sys.argv[1:])
