"""The names that Phalanx's processes have in `ps` and `top`. `pkill python` does not match them."""

from __future__ import annotations

import ctypes

from phalanx.runtime.os.child_calls import Call, address_of, function

HEAD, NODE, FORK_SERVER = b"phalanx-head", b"phalanx-node", b"phalanx-forks"
WORKER, SHIELD, GATEWAY = b"phalanx-worker", b"phalanx-shield", b"phalanx-gateway"
READER = b"phalanx-devices"
"""The names of processes. They have at most 15 bytes, because the kernel keeps no more."""
_PR_SET_NAME = 15


def name_process(name: bytes) -> None:
    """Name this process, and the threads that it starts from now on."""
    called, given = call_for_name(name)
    called(*map(ctypes.c_long, given))


def call_for_name(name: bytes) -> Call:
    """Return the call of the C library that names a process. `name`: one of the names above."""
    return function("prctl"), (_PR_SET_NAME, address_of(ctypes.c_char_p(name)))
