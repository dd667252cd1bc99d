"""A peer's side of the comparison, for any Python that can import the peer, with or without
Phalanx. This module must be run as a file. It imports modules of `phalanx_benchmarks` through an
empty package of that name. So the peer's Python needs the peer, numpy and psutil, but none of
Phalanx's packages.
"""

from __future__ import annotations

import os
import sys
import types
from pathlib import Path


def main() -> None:
    """Measure one row on a peer; the arguments are the peer, the row and the effort."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Without this, the peer's workers would yield to everything else on the machine, and Phalanx's
    # would not.
    os.environ.setdefault("RAY_worker_niceness", "0")
    from phalanx_benchmarks.side import serve

    if sys.argv[1] == "charm4py":
        from phalanx_benchmarks.actor_systems import charm

        charm.main(lambda: serve(*sys.argv[1:]))
    else:
        serve(*sys.argv[1:])


if __name__ == "__main__":
    here = Path(__file__).resolve()
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != here.parent]
    package = types.ModuleType("phalanx_benchmarks")
    package.__path__ = [str(here.parent)]
    sys.modules["phalanx_benchmarks"] = package
    main()
