"""The packages of another system from Debian, which are unpacked into a folder and not
installed.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

_DONE = "unpacked"
"""The name of the file that lists the packages in a folder. It is written when all of them are
unpacked.
"""


def unpacked(names: Sequence[str], folder: Path) -> Path:
    """Return the folder with the files of these packages and of the packages that they need.

    apt decides which packages the machine lacks; nothing is installed, and root is not needed. If
    an earlier call has filled the folder with the same packages, nothing is done. Raises
    RuntimeError if apt knows no such package.
    """
    root, done = folder / "root", folder / _DONE
    if done.is_file() and done.read_text().split()[: len(names)] == list(names):
        return root
    debs = folder / "debs"
    debs.mkdir(parents=True, exist_ok=True)
    plan = _run(["apt-get", "-s", "--no-install-recommends", "install", *names])
    missing = [line.split()[1] for line in plan.splitlines() if line.startswith("Inst ")]
    _run(["apt-get", "-qq", "download", *missing], debs)
    for deb in sorted(debs.glob("*.deb")):
        _run(["dpkg-deb", "-x", str(deb), str(root)])
    done.write_text("\n".join([*names, *missing]))
    return root


def _run(command: Sequence[str], directory: Path | None = None) -> str:
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout
