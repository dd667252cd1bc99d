"""Runs the programs `ssh` and `scp`, with the user's own configuration of ssh."""

from __future__ import annotations

import functools
import json
import shlex
import subprocess
from typing import Any

from phalanx.cli.rollout import machine_program
from phalanx.cli.rollout.cluster_file import Cluster, Machine
from phalanx.runtime.daemons.cluster_token import redact

CONNECT_S = 15
"""Seconds for ssh to connect."""
_SHOWN_LINES = 12
_LOADER = (
    "import json,sys; given=json.load(sys.stdin); names={}; exec(given['program'],names); "
    f"names['{machine_program.main.__name__}'](given['request'])"
)
"""The text of a Python program that ssh starts on a machine. It runs another program, whose text
arrives on standard input.
"""
_USUAL = ("BatchMode=yes", f"ConnectTimeout={CONNECT_S}", "ServerAliveInterval=15")
"""Options of ssh. The user's options come before these, and ssh uses the first value that it reads
for an option.
"""


class MachineError(Exception):
    """Raised when a machine cannot be reached, or when its part of a step fails. The text has the
    last lines of the tool that failed.
    """


class Connection:
    """Reaches one machine."""

    def __init__(self, machine: Machine, cluster: Cluster) -> None:
        self._machine = machine
        self._install = cluster.install
        self._token_file = str(cluster.start.get("token_file", "~/.phalanx/token"))

    def ask(self, do: str, limit_s: float, **request: Any) -> dict[str, Any]:
        """Call the function `do` of the machine program on the machine, and return its answer.
        Raises MachineError.
        """
        about = {
            "do": do,
            "name": self._machine.name,
            "token_file": self._token_file,
            "venv": self._install.venv,
            **request,
        }
        given = {"program": _program(), "request": about}
        command = shlex.join([self._install.python, "-c", _LOADER])
        said = self._run(
            ["ssh", *self._options("-p"), "--", self._machine.host, command],
            json.dumps(given),
            limit_s,
        )
        lines = [line for line in said.splitlines() if line.startswith(machine_program.ANSWER)]
        if not lines:
            raise MachineError(f"{do} gave no answer: {_last(said)}")
        answer = json.loads(lines[-1].removeprefix(machine_program.ANSWER))
        if "failure" in answer:
            raise MachineError(redact(str(answer["failure"])))
        return dict(answer)

    def copy(self, path: str, target: str, limit_s: float) -> None:
        """Copy a file to a path below the account's home. Raises MachineError."""
        host = self._machine.host
        place = f"[{host}]" if ":" in host else host
        self._run(["scp", "-q", *self._options("-P"), "--", path, f"{place}:{target}"], "", limit_s)

    def _options(self, port: str) -> list[str]:
        one = self._machine
        words = [word for option in (*one.options, *_USUAL) for word in ("-o", option)]
        if one.port:
            words += [port, str(one.port)]
        return [*words, *(["-o", f"User={one.user}"] if one.user else [])]

    def _run(self, words: list[str], given: str, limit_s: float) -> str:
        tool = words[0]
        try:
            done = subprocess.run(
                words,
                input=given,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=limit_s,
                check=False,
            )
        except FileNotFoundError:
            raise MachineError(f"there is no program {tool}: install OpenSSH's client") from None
        except subprocess.TimeoutExpired:
            raise MachineError(f"{tool} has not ended within {limit_s:.0f} s") from None
        if done.returncode:
            said = done.stderr if done.stderr.strip() else done.stdout
            raise MachineError(f"{tool} failed ({done.returncode}): {_last(said)}")
        return done.stdout


@functools.cache
def _program() -> str:
    with open(machine_program.__file__, encoding="utf-8") as file:
        return file.read()


def _last(text: str) -> str:
    """Return the last lines of a tool's output, without tokens."""
    return redact("\n".join(text.strip().splitlines()[-_SHOWN_LINES:])) or "it said nothing"
