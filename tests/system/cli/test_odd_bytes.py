"""Bytes that are not UTF-8 are harmless: arguments, variables, directories and scripts reach the
command unchanged. If the current directory was removed, the message says so.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.polling import eventually
from tests.system.cli.conftest import COMMAND, PATIENCE_S, Machine

ODD = b"a\xff\x80b"
SLURM = "from phalanx.adapters.slurm.commands.main import main; main({name!r})"


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    made = Machine()
    try:
        made.start_head()
        yield made
    finally:
        made.end()


def call(
    machine: Machine, directory: bytes, code: str, *words: bytes, **env: bytes
) -> subprocess.CompletedProcess[bytes]:
    """Run a command in a directory, as a shell of that user would."""
    variables = {os.fsencode(k): os.fsencode(v) for k, v in machine.env.items()}
    return subprocess.run(
        [sys.executable, "-c", code, *words],
        cwd=directory,
        env=variables | {os.fsencode(k): v for k, v in env.items()},
        capture_output=True,
        stdin=subprocess.DEVNULL,
        timeout=PATIENCE_S,
        check=False,
    )


def odd_directory(tmp_path: Path) -> bytes:
    directory = os.fsencode(tmp_path) + b"/" + ODD
    os.mkdir(directory)
    return directory


SHOWS = (
    "import os, sys; print([os.getcwdb().split(b'/')[-1], os.fsencode(sys.argv[1]),"
    " os.environb.get(b'ODD')])"
)


def test_arguments_and_directories_of_run(machine: Machine, tmp_path: Path) -> None:
    words = [b"run", b"--", os.fsencode(sys.executable), b"-c", SHOWS.encode(), ODD]
    ended = call(machine, odd_directory(tmp_path), COMMAND, *words)
    assert ended.returncode == 0, ended.stderr
    assert repr([ODD, ODD, None]).encode() in ended.stdout


def test_a_command_that_is_not_there_is_named(machine: Machine, tmp_path: Path) -> None:
    ended = call(machine, odd_directory(tmp_path), COMMAND, b"run", b"--", b"./" + ODD)
    assert ended.returncode != 0
    assert b"there is no command ./" in ended.stdout + ended.stderr
    assert b"Traceback" not in ended.stdout + ended.stderr


def test_variables_and_scripts_of_sbatch(machine: Machine, tmp_path: Path) -> None:
    directory = odd_directory(tmp_path)
    script = directory + b"/" + ODD + b".sh"
    with open(script, "wb") as file:
        file.write(b"#!/bin/sh\n# caf\xe9\n#SBATCH -o out\n")
        file.write(b'printf "%s %s %s" "$ODD" "$1" ' + ODD + b"\n")
    ended = call(machine, directory, SLURM.format(name="sbatch"), script, ODD, ODD=ODD)
    assert ended.returncode == 0, ended.stderr
    out = Path(os.fsdecode(directory)) / "out"
    eventually(lambda: out.exists() and out.read_bytes() == b" ".join([ODD] * 3))


def test_variables_of_srun(machine: Machine, tmp_path: Path) -> None:
    words = [os.fsencode(sys.executable), b"-c", SHOWS.encode(), ODD]
    ended = call(machine, odd_directory(tmp_path), SLURM.format(name="srun"), *words, ODD=ODD)
    assert ended.returncode == 0, ended.stderr
    assert repr([ODD, ODD, ODD]).encode() in ended.stdout


PROGRAM = """
import os, sys, phalanx
phalanx.init(address="auto")
odd = os.fsdecode(%r)

@phalanx.remote
def shows():
    return os.getcwdb().split(b"/")[-1], os.environb.get(b"ODD")

@phalanx.remote
class Actor:
    def shows(self):
        return os.environb.get(b"ODD")

environment = {"env_vars": {"ODD": odd}}
print(phalanx.get(shows.options(runtime_env=environment, name=odd).remote()))
print(phalanx.get(Actor.options(runtime_env=environment, name=odd).remote().shows.remote()))
"""


def test_environments_of_tasks_and_actors(machine: Machine, tmp_path: Path) -> None:
    ended = call(machine, odd_directory(tmp_path), PROGRAM % (ODD,))
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines() == [repr((ODD, ODD)).encode(), repr(ODD).encode()]
    assert b"Traceback" not in ended.stderr


LISTINGS = [("jobs", "--json"), ("history", "--json")]


@pytest.mark.parametrize("words", LISTINGS)
def test_what_is_listed_stays_json(
    machine: Machine, tmp_path: Path, words: tuple[str, ...]
) -> None:
    ended = call(machine, odd_directory(tmp_path), COMMAND, b"run", b"--", b"true", ODD)
    assert ended.returncode == 0, ended.stderr
    names = [row.get("name") or row.get("job") for row in json.loads(machine.done(*words))]
    assert any(name.startswith("true-") for name in names)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (COMMAND, (b"run", b"--", b"true")),
        (SLURM.format(name="sbatch"), (b"--wrap", b"true")),
        (SLURM.format(name="srun"), (b"true",)),
        (SLURM.format(name="salloc"), (b"true",)),
    ],
)
def test_a_current_directory_that_was_removed_is_named(
    machine: Machine, tmp_path: Path, code: str, words: tuple[bytes, ...]
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    removing = f"import os; os.rmdir({str(gone)!r}); {code}"
    ended = call(machine, os.fsencode(gone), removing, *words)
    assert ended.returncode == 1
    assert b"The current directory was removed." in ended.stderr
    assert b"Traceback" not in ended.stderr
