"""Long runs in separate programs. Each starts from a seed that is printed, so that the run can be
repeated.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from phalanx.observe.log_lines import INFO, record_of

ROOT = Path(__file__).parents[3]
LAST_BYTES = 3000
"""The number of bytes that are shown of the end of each log."""


@dataclass(frozen=True, kw_only=True)
class Soak:
    """A long run of a module of this folder. The module's `main` takes the number of rounds, a seed
    and more arguments.

    The environment variable NAME sets the number of rounds, and NAME_SEED the seed.
    """

    module: str
    name: str
    rounds: int

    def run(self, *words: str, before: tuple[str, ...] = ()) -> dict[str, int]:
        """Run the module; return the counts that it prints. `before`: words in front of the
        command.
        """
        rounds = int(os.environ.get(self.name, self.rounds))
        seed = int(os.environ.get(f"{self.name}_SEED", secrets.randbelow(2**31)))
        again = f"again: {self.name}={rounds} {self.name}_SEED={seed}"
        print(again, flush=True)
        program = (sys.executable, "-m", f"tests.system.chaos.{self.module}")
        ended = subprocess.run(
            [*before, *program, str(rounds), str(seed), *words],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        print(ended.stdout)
        assert ended.returncode == 0, f"{again}\n{ended.stdout}{ended.stderr}"
        seen: dict[str, int] = json.loads(ended.stdout.splitlines()[-1])
        assert seen["rounds"] == rounds
        return seen


def logs_text(directory: Path) -> str:
    """Return the lines of daemons' logs above the level info, all lines that the interpreter
    printed, and the end of each log.
    """
    texts = []
    for path in sorted(directory.glob("*")):
        data = path.read_bytes()
        lines = [line for line in data.splitlines() if _is_told(line)]
        texts += [
            f"---- {path.name}: warnings",
            *(line.decode("utf-8", "replace") for line in lines),
        ]
        texts += [f"---- {path.name}: end", data[-LAST_BYTES:].decode("utf-8", "replace")]
    return "\n".join(texts)


def _is_told(line: bytes) -> bool:
    record = record_of(line)
    return bool(line.strip()) if record is None else record.level not in ("", INFO)
