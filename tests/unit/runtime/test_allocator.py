"""Memory of freed values: the process uses it again, so the kernel need not clear new pages."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

ROUNDS = 20
VALUES = 10
PAGES_OF_A_VALUE = 256
CODE = f"""
import resource
from phalanx.runtime.os.allocator import keep_freed_memory

keep_freed_memory()
source = bytearray(b"x" * (1 << 20))
faults = []
for _ in range({ROUNDS}):
    values = [bytes(source) for _ in range({VALUES})]
    del values
    faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
print(faults[-1] - faults[0])
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has these thresholds")
def test_values_of_a_mib_use_the_memory_of_earlier_ones():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert int(done.stdout) < PAGES_OF_A_VALUE, "new pages for less than one value of hundreds"
