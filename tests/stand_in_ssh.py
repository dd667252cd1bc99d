#!/usr/bin/env python3
"""A stand-in for `ssh` and `scp`, for tests: it takes their arguments, and runs the command on this
machine, with a separate home directory for each host.

Tests put links called `ssh` and `scp` to this file into a directory that is first in the PATH. The
directory in STAND_IN_HOSTS has a home for each host that can be reached; any other host is refused,
as by ssh. Each command is noted in the file `commands` of that directory.
"""

from __future__ import annotations

import os
import shutil
import sys

HOSTS = os.environ["STAND_IN_HOSTS"]
WITH_VALUE = {"-o", "-p", "-P"}


def words_without_options(arguments: list[str]) -> list[str]:
    """Return the words that follow the options, as `getopt` separates them."""
    rest = list(arguments)
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if option == "--":
            break
        if option in WITH_VALUE:
            rest.pop(0)
    return rest


def home_of(host: str) -> str:
    home = os.path.join(HOSTS, host)
    if not os.path.isdir(home):
        print(f"ssh: connect to host {host} port 22: No route to host", file=sys.stderr)
        sys.exit(255)
    return home


def main() -> None:
    program, *arguments = sys.argv
    with open(os.path.join(HOSTS, "commands"), "a") as commands:
        commands.write("\t".join([os.path.basename(program), *arguments]) + "\n")
    first, second = words_without_options(arguments)
    if os.path.basename(program) == "scp":
        host, _, path = second.partition(":")
        shutil.copy(first, os.path.join(home_of(host), path))
        return
    home = home_of(first)
    kept = ("PATH", "LANG", "LC_ALL")
    env = {name: os.environ[name] for name in kept if name in os.environ}
    env |= {"HOME": home, "XDG_RUNTIME_DIR": os.path.join(home, "run"), "SHELL": "/bin/sh"}
    os.chdir(home)
    print("a message of the day, which some machines print at each login", flush=True)
    os.execve("/bin/sh", ["sh", "-c", second], env)


main()
