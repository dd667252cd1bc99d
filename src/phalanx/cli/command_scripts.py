"""Scripts by which other systems' commands run Phalanx, as `phalanx compat` installs them."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import phalanx
from phalanx.cli.reach import USAGE, fail


def install_scripts(
    directory: Path, calls: Mapping[str, str], ours: Sequence[str], force: bool
) -> list[Path]:
    """Write a script for each command into a directory, and return their paths.

    `calls`: the lines of Python that run each command, by its name. `ours`: lines by which
    Phalanx's scripts are recognized. Ends the command if another file has the name of a script,
    unless `force`, and if the directory cannot be written.
    """
    files = {directory / name: lines for name, lines in calls.items()}
    root = Path(phalanx.__file__).resolve().parent.parent
    begin = f"#!{sys.executable}\nimport sys\nsys.path.append({str(root)!r})\n"
    try:
        for file in files:
            if not force and not _is_free(file, ours):
                fail(f"{file} exists and is not Phalanx's: --force overwrites it.", USAGE)
        directory.mkdir(parents=True, exist_ok=True)
        for file, lines in files.items():
            file.write_text(f"{begin}{lines}\n")
            file.chmod(0o755)
    except (FileExistsError, NotADirectoryError):
        fail(f"{directory} is not a directory: give one that is on your PATH.", USAGE)
    except OSError as error:
        fail(
            f"The commands cannot be installed into {directory}: {error.filename}: "
            f"{error.strerror}. Give a directory into which you may write, such as ~/.local/bin."
        )
    return list(files)


def _is_free(file: Path, ours: Sequence[str]) -> bool:
    try:
        text = file.read_text()
    except FileNotFoundError:
        return True
    except UnicodeDecodeError:  # a program
        return False
    return any(line in text for line in ours)
