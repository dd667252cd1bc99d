"""The systems under test: Phalanx in this interpreter, and peers in this interpreter or in another,
if one is named.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from phalanx_benchmarks.row import ACTORS, POOLS, Row

PEER_PYTHON = "PHALANX_BENCH_PYTHON"
ENGINES = ("phalanx", "ray")
"""The systems whose modules have the names that rows outside of POOLS and ACTORS call."""
PEERS = {
    "ray": ("ray", "ray"),
    "multiprocessing": ("multiprocessing", ""),
    "concurrent.futures": ("concurrent.futures", ""),
    "joblib": ("joblib", "joblib"),
    "dask": ("distributed", "distributed"),
    "parsl": ("parsl", "parsl"),
    "charm4py": ("charm4py", "charm4py"),
    "xoscar": ("xoscar", "xoscar"),
}
"""The module and the distribution of each peer, by its name. Python's own pools have no
distribution.
"""
OF_ACTORS = ("charm4py", "xoscar")
"""The peers that can run only the rows of ACTORS. All other peers except Ray run only the rows of
POOLS.
"""
_LAUNCHERS = {"charm4py": ("-m", "charmrun.start", "+p2")}
"""The arguments of Python that start a program of a peer that has a launcher of its own."""


class PeerMissing(Exception):
    """Raised if the peer cannot run here. The text says what to install."""


@dataclass(frozen=True, kw_only=True)
class Side:
    """A system under test: its name, its version, and the command that measures one row on it."""

    name: str
    version: str
    command: tuple[str, ...]

    def can(self, row: Row) -> bool:
        """Whether this system can run the row."""
        if self.name == "phalanx":
            return True
        own = ACTORS if self.name in OF_ACTORS else POOLS
        return row.peers and (self.name in ENGINES or row.group == own)


def phalanx_side() -> Side:
    """Return the side of Phalanx, which this interpreter runs."""
    return Side(
        name="phalanx",
        version=version("phalanx"),
        command=(sys.executable, "-m", "phalanx_benchmarks.side"),
    )


def peer_sides(names: Iterable[str]) -> list[Side]:
    """Return each named peer once. Raises PeerMissing, as `peer_side` does."""
    wanted = list(dict.fromkeys(names))
    unknown = [name for name in wanted if name not in PEERS]
    if unknown:
        raise PeerMissing(f"--peer {unknown[0]!r} is unknown; the peers are: {', '.join(PEERS)}.")
    return [peer_side(name) for name in wanted]


def peer_side(name: str) -> Side:
    """Return a peer. It runs in the Python that `PHALANX_BENCH_PYTHON` names, or else in this
    Python. Raises PeerMissing if that Python cannot import the peer.
    """
    module, distribution = PEERS[name]
    python = os.environ.get(PEER_PYTHON) or sys.executable
    said = f"importlib.metadata.version({distribution!r})" if distribution else "''"
    program = (
        f"import importlib.metadata, platform, numpy, psutil, {module}; "
        f"print('version', {said} or platform.python_version())"
    )
    try:
        check = subprocess.run([python, "-c", program], capture_output=True, text=True, check=False)
    except OSError as error:
        raise PeerMissing(
            f"{PEER_PYTHON} is {python!r}, which cannot be started ({error.strerror}); "
            "it must be the path of a Python interpreter."
        ) from error
    if check.returncode != 0:
        reason = (check.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise PeerMissing(
            f"--peer {name} needs {module}, and {python} cannot import it ({reason}): install it "
            f"with `pip install phalanx-benchmarks[peers]`, or set {PEER_PYTHON} to the Python of "
            f"another environment that has {module}, numpy and psutil."
        )
    lines, launcher = check.stdout.splitlines(), _LAUNCHERS.get(name, ())
    return Side(
        name=name,
        version=next(w[1] for line in lines if len(w := line.split()) == 2 and w[0] == "version"),
        command=(python, *launcher, str(Path(__file__).with_name("peer_side.py")), name),
    )
