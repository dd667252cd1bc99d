"""The packages of another system. Debian's packages are unpacked into a folder and not installed.
Python's packages are installed into a separate environment.
"""

from __future__ import annotations

import subprocess
import venv
from collections.abc import Sequence
from pathlib import Path

_DONE = "unpacked"
"""The name of the file that lists the packages in a folder. It is written when all packages are
unpacked.
"""


def unpacked(names: Sequence[str], folder: Path) -> Path:
    """Unpack these packages, and the packages that they need, into a folder, and return it. apt
    decides which packages the machine lacks. Nothing is installed, and root is not needed. If the
    folder already has the same packages, nothing is done. Raises RuntimeError if apt knows no such
    package.
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


def environment(packages: Sequence[str], at: Path) -> Path:
    """Make an environment with these Python packages, and return its Python. If the environment
    already has the same packages, nothing is done.
    """
    python, done = at / "bin/python", at / _DONE
    if not done.is_file() or done.read_text().split() != list(packages):
        venv.create(at, with_pip=True, clear=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *packages], check=True)
        done.write_text("\n".join(packages))
    return python


def _run(command: Sequence[str], directory: Path | None = None) -> str:
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout
