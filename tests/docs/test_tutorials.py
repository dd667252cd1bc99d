"""Each tutorial is followed exactly: its files are written, its commands run, and its outputs
compared.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

TUTORIALS = Path(__file__).parents[2] / "docs" / "tutorials"
NOT_RUN = {
    "train-with-torch.md": "it needs PyTorch, which the tests do not install",
    "lab.md": "it is the transcript of `make lab`, which needs root and network namespaces",
}
TIMEOUT_S = 120
BLOCK = re.compile(r"(?:Write `([^`]+)`[^`]*?)?```(\w+)\n(.*?)```", re.DOTALL)


@pytest.fixture
def machine() -> Iterator[Path]:
    """Yield a home directory with a runtime directory. The cluster that is started there ends with
    the test.
    """
    directory = Path(tempfile.mkdtemp(prefix="pht-", dir="/tmp"))
    (directory / "run").mkdir(mode=0o700)
    (directory / "work").mkdir()
    yield directory
    run(directory, "phalanx stop --forget --yes")
    shutil.rmtree(directory, ignore_errors=True)


def run(directory: Path, script: str) -> subprocess.CompletedProcess[str]:
    """Run the lines of a shell block, with any free port. It ends at the first line that fails."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("PHALANX_")
    }
    environment |= {"HOME": str(directory), "XDG_RUNTIME_DIR": str(directory / "run")}
    environment["PATH"] = (
        f"{directory / 'work' / 'bin'}:{Path(sys.executable).parent}:/usr/bin:/bin"
    )
    return subprocess.run(
        ["bash", "-ec", script.replace("--head ", "--head --port 0 ")],
        cwd=directory / "work",
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def test_every_tutorial_is_run_or_says_why_not() -> None:
    pages = {page.name for page in TUTORIALS.glob("*.md")}
    assert set(NOT_RUN) < pages
    for name in pages - set(NOT_RUN):
        assert "```sh" in (TUTORIALS / name).read_text(encoding="utf-8"), name


@pytest.mark.parametrize(
    "page", sorted(page.name for page in TUTORIALS.glob("*.md") if page.name not in NOT_RUN)
)
def test_a_tutorial_does_what_it_says(page: str, machine: Path) -> None:
    printed = ""
    for file, kind, block in BLOCK.findall((TUTORIALS / page).read_text(encoding="utf-8")):
        if file:
            (machine / "work" / file).write_text(block, encoding="utf-8")
        elif kind == "sh":
            done = run(machine, block)
            assert done.returncode == 0, f"{block}{done.stdout}"
            printed = done.stdout
        elif kind == "text":
            squeezed = " ".join(printed.split())
            for line in block.splitlines():
                assert " ".join(line.split()) in squeezed, f"{line!r} is not in {printed}"
        else:
            assert kind == "console", f"{kind} blocks are neither run nor written to a file"
