"""A cluster whose PATH has Slurm's commands before all others."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence

from tests.system.cli.conftest import PATIENCE_S, Machine
from tests.warm import popen_in_use

from phalanx.adapters.slurm.commands.running import COMMANDS, OURS

_PLAIN = re.compile(r"[\w ,.:/=%+-]+")
"""Matches lines that a shell passes on unchanged."""


class SlurmMachine:
    """Two nodes of four CPUs, and Slurm's commands."""

    def __init__(self, *options: str) -> None:
        self.machine = Machine()
        self.machine.start_head("--num-cpus", "4", *options)
        address = self.machine.status()["address"]
        self.machine.join(address, "second", "--num-cpus", "4", *options)
        self.commands = os.path.join(self.machine.home, "bin")
        self.machine.done("compat", "slurm", "install", self.commands)

    def run(
        self, words: Sequence[str], directory: str | os.PathLike[str], given: str = "", **env: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a program with Slurm's commands on its PATH.

        If the program is one of these commands, it is forked from the warm parent, as all commands
        of tests are. Shells and scripts call the installed files.
        """
        path = f"{self.commands}:{self.machine.env['PATH']}"
        if words[0] in COMMANDS:
            words = [sys.executable, "-c", f"{OURS}; main({words[0]!r})", *words[1:]]
        with popen_in_use()(
            list(words), env=self.machine.env | {"PATH": path} | env, cwd=directory, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        ) as process:  # fmt: skip
            try:
                out, err = process.communicate(given, timeout=PATIENCE_S)
            except BaseException:
                process.kill()
                raise
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    def line(
        self, line: str, directory: str | os.PathLike[str], **env: str
    ) -> subprocess.CompletedProcess[str]:
        """Run one line: without a shell if it is a single plain command, otherwise through a
        shell.
        """
        is_plain = _PLAIN.fullmatch(line) and line.split(maxsplit=1)[0] in COMMANDS
        return self.run(shlex.split(line) if is_plain else ["sh", "-c", line], directory, **env)
