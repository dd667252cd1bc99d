"""Output of workers is shown before the driver ends."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import phalanx

phalanx.init(num_cpus=1)

@phalanx.remote
def talk(count):
    for i in range(count):
        print("line", i)

phalanx.get(talk.remote(1000))
"""


def test_nothing_printed_is_lost_when_the_driver_ends_at_once():
    shown = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=True
    ).stdout
    assert sum("line" in line for line in shown.splitlines()) == 1000
