"""A simulated machine for tests: accounts, /run and directories that no other process sees.

`python own_machine.py hold DIRECTORY PATH ...`, by root, makes it in a mount namespace and holds it
until its input ends. `python own_machine.py within PID ACCOUNT PROGRAM ...` runs a program there.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import subprocess
import sys

CLONE_NEWNS = 0x20000
_libc = ctypes.CDLL(None, use_errno=True)


def _mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)


def _closed_above(path: str) -> str:
    """Return the highest directory above a path that other accounts cannot enter; "" if there is
    none.
    """
    parts = path.split(os.sep)
    for count in range(1, len(parts) + 1):
        directory = os.sep.join(parts[:count]) or os.sep
        if not os.stat(directory).st_mode & 1:
            return directory
    return ""


def _open_ways(paths: list[str]) -> None:
    """Make these paths reachable for all accounts, without exposing anything else in closed
    directories.
    """
    closed: dict[str, list[tuple[str, str]]] = {}
    for number, path in enumerate(paths):
        if above := _closed_above(path):
            kept = f"/run/kept-{number}"
            os.mkdir(kept)
            _mount("--bind", path, kept)
            closed.setdefault(above, []).append((kept, path))
    for above, kept_paths in closed.items():
        _mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", above)
        for kept, path in kept_paths:
            os.makedirs(path, exist_ok=True)
            _mount("--bind", kept, path)


def hold(directory: str, paths: list[str]) -> None:
    """Make the machine with the accounts in DIRECTORY/passwd and DIRECTORY/group, and hold it."""
    if _libc.unshare(CLONE_NEWNS):
        sys.exit(f"no mount namespace: {os.strerror(ctypes.get_errno())}")
    _mount("--make-rprivate", "/")
    for name in ("passwd", "group"):
        _mount("--bind", os.path.join(directory, name), f"/etc/{name}")
    _mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run")
    for shared in ("/var/tmp", "/dev/shm"):
        _mount("-t", "tmpfs", "-o", "mode=1777", "tmpfs", shared)
    _open_ways(paths)
    print("ready", flush=True)
    sys.stdin.read()


def within(holder: str, account: str, program: list[str]) -> None:
    """Run a program as an account, in the machine that `holder` holds. It replaces this process."""
    fd = os.open(f"/proc/{holder}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    if _libc.setns(fd, CLONE_NEWNS):
        sys.exit(f"no machine: {os.strerror(ctypes.get_errno())}")
    found = pwd.getpwnam(account)
    os.chdir("/")
    if found.pw_uid:
        os.setgroups(os.getgrouplist(found.pw_name, found.pw_gid))
        os.setresgid(found.pw_gid, found.pw_gid, found.pw_gid)
        os.setresuid(found.pw_uid, found.pw_uid, found.pw_uid)
    os.execv(program[0], program)


if __name__ == "__main__":
    if sys.argv[1] == "hold":
        hold(sys.argv[2], sys.argv[3:])
    else:
        within(sys.argv[2], sys.argv[3], sys.argv[4:])
