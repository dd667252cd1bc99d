"""A runtime of two CPUs that the tests of this package share."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

import phalanx


@pytest.fixture(scope="package")
def runtime():
    """Yield the package `phalanx` with a running runtime of 2 CPUs."""
    phalanx.shutdown()
    phalanx.init(num_cpus=2)
    yield phalanx
    phalanx.shutdown()


@pytest.fixture
def get(runtime):
    """Return a `get` that fails instead of hanging."""
    return lambda refs: runtime.get(refs, timeout=120)


STOOD_STILL = "phalanx: this process did not run for "


@pytest.fixture
def run_program(tmp_path):
    """Return a function that runs a program in a new interpreter and returns (exit code,
    output).
    """

    def run(text, **environment):
        path = tmp_path / "program.py"
        path.write_text(textwrap.dedent(text))
        done = subprocess.run(
            [sys.executable, "-W", "error", str(path)],
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=60,
            text=True,
            check=False,
        )
        # On a busy machine, any process may have to say that it stood still.
        lines = done.stdout.splitlines(keepends=True)
        return done.returncode, "".join(line for line in lines if STOOD_STILL not in line)

    return run
