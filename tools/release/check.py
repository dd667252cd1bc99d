"""Checks the built distributions in environments that have nothing else: `make release`.

The core wheel alone runs the README's programs and prints the help of every command. With the
documentation's wheel `phalanx docs` shows every page, and the examples say what they need.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 300
_PROGRAM = re.compile(r"```python\n(.*?)```", re.DOTALL)
_COMMANDS = """
from phalanx.cli.options import Group
from phalanx.cli.registry import ENTRIES, definition
for name in ENTRIES:
    print(name)
    found = definition(name)
    if isinstance(found, Group):
        for below in found.commands:
            print(name, below)
"""


class Environment:
    """A new virtual environment, whose programs get a home of their own."""

    def __init__(self, folder: Path, python: str) -> None:
        self.folder = folder
        (folder / "home").mkdir()
        (folder / "run").mkdir(mode=0o700)
        subprocess.run([python, "-m", "venv", str(folder / "venv")], check=True)
        self.bin = folder / "venv" / "bin"
        self.variables = {
            **{name: value for name, value in os.environ.items() if "PHALANX" not in name},
            "HOME": str(folder / "home"),
            "XDG_RUNTIME_DIR": str(folder / "run"),
            "PATH": f"{self.bin}:{os.environ['PATH']}",
        }
        self.variables.pop("PYTHONPATH", None)

    def install(self, *what: str) -> None:
        """Install packages with pip, which reads its usual configuration."""
        words = [str(self.bin / "python"), "-m", "pip", "install", "--quiet", *what]
        subprocess.run(words, check=True)

    def output(self, *words: str, text: str = "", codes: tuple[int, ...] = (0,)) -> str:
        """Run a program of the environment, and return its output. If its exit code is not in
        `codes`, end the check.
        """
        done = subprocess.run(
            [str(self.bin / words[0]), *words[1:]],
            cwd=self.folder, env=self.variables, input=text, capture_output=True, text=True,
            timeout=TIMEOUT_S, check=False,
        )  # fmt: skip
        if done.returncode not in codes:
            sys.exit(f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout + done.stderr


def check_core(one: Environment) -> None:
    """Check the programs of the README and the help of all commands, with the core alone."""
    version = one.output("phalanx", "--version").strip()
    print(f"phalanx {version}")
    assert one.output("python", "-m", "phalanx", "--version").strip() == version
    commands = one.output("python", "-", text=_COMMANDS).splitlines()
    for line in commands:
        assert "Usage: phalanx" in one.output("phalanx", *line.split(), "--help"), line
    print(f"{len(commands)} commands show their help")
    programs = _PROGRAM.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    for program in programs:
        print("a program of the README prints", one.output("python", "-", text=program).strip())
    assert "pip install phalanx-docs" in one.output("phalanx", "docs", codes=(2,))


def check_docs(one: Environment) -> None:
    """Check that each page is shown, and that the manual pages lie where `man` looks."""
    pages = [line.split()[0] for line in one.output("phalanx", "docs").splitlines()[1:]]
    for page in pages:
        assert one.output("phalanx", "docs", page).startswith("# "), page
    manual = list((one.folder / "venv" / "share" / "man" / "man1").glob("phalanx*.1"))
    assert manual, "there are no manual pages"
    print(f"{len(pages)} pages, {len(manual)} manual pages")


def check_examples(one: Environment) -> None:
    """Check that each example runs, or names the package that it needs."""
    for path in sorted((ROOT / "examples").rglob("*.py")):
        done = subprocess.run(
            [str(one.bin / "python"), str(path), *_ARGUMENTS.get(path.name, ())],
            cwd=one.folder, env=one.variables, stdin=subprocess.DEVNULL, capture_output=True,
            text=True, timeout=TIMEOUT_S, check=False,
        )  # fmt: skip
        said = (done.stdout + done.stderr).strip().splitlines()
        last = said[-1] if said else ""
        if done.returncode and ("Traceback" in done.stderr or "pip install" not in last):
            sys.exit(f"{path.relative_to(ROOT)} ended with {done.returncode}:\n{done.stderr}")
        print(f"{path.relative_to(ROOT)}: {'runs' if not done.returncode else last}")


_ARGUMENTS = {
    "what_a_task_costs.py": ("--help",),
    "workers_in_one_process.py": ("--help",),
}
"""Arguments for examples that measure for minutes. Here these examples only have to begin."""


def main() -> int:
    """Check the distributions in a folder."""
    reader = argparse.ArgumentParser(description=main.__doc__)
    reader.add_argument("--dist", type=Path, default=ROOT / "dist")
    reader.add_argument("--python", required=True)
    given = reader.parse_args()
    (core,) = given.dist.glob("phalanx-[0-9]*.whl")
    (docs,) = given.dist.glob("phalanx_docs-*.whl")
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="phr-") as folder:
        one = Environment(Path(folder), given.python)
        one.install(str(core))
        check_core(one)
        check_examples(one)
        one.install(str(docs))
        check_docs(one)
    return 0


if __name__ == "__main__":
    sys.exit(main())
