"""Runs a program as another account: `python as_user.py ACCOUNT PROGRAM ARGUMENT ...`, by root.

The program may read all files, since the interpreter of these tests may lie in a directory that
only root can enter; it has no other right of root's.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import struct
import sys

_PR_SET_KEEPCAPS, _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE = 8, 47, 2
_READ_ALL = 2  # CAP_DAC_READ_SEARCH
_VERSION_3 = 0x20080522


def main() -> None:
    account, program = pwd.getpwnam(sys.argv[1]), sys.argv[2:]
    libc = ctypes.CDLL(None, use_errno=True)
    os.setgroups(os.getgrouplist(account.pw_name, account.pw_gid))
    os.setresgid(account.pw_gid, account.pw_gid, account.pw_gid)
    libc.prctl(_PR_SET_KEEPCAPS, 1, 0, 0, 0)
    os.setresuid(account.pw_uid, account.pw_uid, account.pw_uid)
    bit = 1 << _READ_ALL
    header, sets = struct.pack("Ii", _VERSION_3, 0), struct.pack("6I", bit, bit, bit, 0, 0, 0)
    libc.capset(header, sets)
    libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, _READ_ALL, 0, 0)
    os.execv(program[0], program)


if __name__ == "__main__":
    main()
