"""A pool in a program that names no cluster, on a machine where a cluster runs."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from tests.system.cli.conftest import PATIENCE_S, Machine

PROGRAM = """
from {module} import Pool
with Pool({arguments}) as pool:
    print(pool.map(abs, [-1, -2, -3]))
import phalanx
print(phalanx.cluster_resources()["CPU"])
"""


@pytest.fixture(scope="module")
def machine():
    machine = Machine()
    try:
        machine.start_head("--num-cpus", "3")
        yield machine
    finally:
        machine.end()


@pytest.mark.parametrize(
    ("module", "arguments", "cpus"),
    [
        ("phalanx.util.multiprocessing", "2", 3),
        ("phalanx.util.multiprocessing", "", 3),
        ("phalanx.util.multiprocessing", "2, address='auto'", 3),
        ("phalanx.util.multiprocessing", "2, address='local'", 2),
        ("phalanx.adapters.ray.modules.multiprocessing", "2", 3),
    ],
)
def test_a_pool_joins_a_cluster_that_runs_here(machine, module, arguments, cpus):
    text = PROGRAM.format(module=module, arguments=arguments)
    env = {name: value for name, value in os.environ.items() if name != "PHALANX_ADDRESS"}
    env |= {name: value for name, value in machine.env.items() if name != "PHALANX_ADDRESS"}
    done = subprocess.run(
        [sys.executable, "-c", text], env=env, cwd=machine.home,
        capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["[1, 2, 3]", str(float(cpus))]
