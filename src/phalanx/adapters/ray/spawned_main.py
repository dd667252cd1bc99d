"""The program again, in a process that it has spawned: the main module that multiprocessing
imports.

The process gets Ray's names before the program asks for them.
"""

from __future__ import annotations

import os
from pathlib import Path

from phalanx.adapters.ray.alias import PROGRAM, install

if __name__ == "__mp_main__":
    install()
    __file__ = os.environ[PROGRAM]
    exec(compile(Path(__file__).read_bytes(), __file__, "exec"), globals())
