"""Starts this process again as another program, with its configuration on standard input."""

from __future__ import annotations

import json
import os
import sys
from typing import Any, NoReturn

import msgspec

from phalanx.runtime.os.file_modes import mask_of_work


def exec_again(module: str, config: Any, arguments: list[str], keep: int = -1) -> NoReturn:
    """Replace this process by Python that runs `module`. The process keeps its id.

    `keep`: a descriptor that the new program inherits; -1 for none.
    """
    source = os.memfd_create("phalanx-config")
    os.write(source, json.dumps(msgspec.to_builtins(config)).encode() + b"\n")
    os.lseek(source, 0, os.SEEK_SET)
    os.dup2(source, 0)
    if keep >= 0:
        os.set_inheritable(keep, True)
    os.umask(mask_of_work())  # the new process must find the mask of this process's starter
    os.execv(sys.executable, [sys.executable, "-m", module, *arguments])
