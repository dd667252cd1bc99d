"""The first process of a host of the lab. It gives the host a name and files of its own, starts the
sshd, and reaps all other processes. If it is killed, everything on the host ends immediately.

It runs as root in namespaces of its own (network, mounts, names, processes), and reads one line of
JSON from standard input: the name, the host's directory, the directory that all hosts share, and
the programs to start.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

OWN = ("home", "opt", "root", "run", "tmp")
"""The directories that each host has alone."""
ACCOUNTS = ("passwd", "group", "shadow", "hosts")
"""Files of /etc that differ from this machine's."""


def mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)


def main() -> None:
    about = json.loads(sys.stdin.readline())
    directory, common = Path(about["directory"]), Path(about["common"])
    socket.sethostname(about["name"])
    mount("--bind", str(common), "/srv")
    for name in ACCOUNTS:
        mount("--bind", str(common / name), f"/etc/{name}")
    mount("-t", "tmpfs", "tmpfs", "/dev/shm")
    mount("--bind", sys.base_prefix, "/mnt")
    for name in OWN:  # /tmp is the last, because it hides the lab's directory
        mount("--bind", str(directory / name), f"/{name}")
    # Python stays at its place, because it may know its libraries by this path.
    os.makedirs(sys.base_prefix, exist_ok=True)
    mount("--bind", "/mnt", sys.base_prefix)
    os.makedirs("/run/sshd", mode=0o755, exist_ok=True)
    for program in about["programs"]:
        subprocess.Popen(program, stdin=subprocess.DEVNULL, start_new_session=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    while True:
        try:
            os.wait()
        except ChildProcessError:
            signal.pause()


main()
