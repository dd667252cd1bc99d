"""The main module that multiprocessing imports in a process that the program has spawned. It
installs Ray's names and then runs the program's own main module.
"""

from __future__ import annotations

import os
from pathlib import Path

from phalanx.adapters.ray.alias import PROGRAM, install

if __name__ == "__mp_main__":
    install()
    __file__ = os.environ[PROGRAM]
    exec(compile(Path(__file__).read_bytes(), __file__, "exec"), globals())
