"""A foreground command shows the complete output of its job, byte for byte, however slowly it is
read.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
from tests.polling import eventually
from tests.system.cli.conftest import COMMAND, Machine

LAST, WIDTH = 1_050_000, 99
"""`seq` prints 105 MB if it counts up to LAST. This is more than a node keeps of a member's output
(64 MiB).
"""
NUMBERS = ("--", "sh", "-c", f"seq -f %0{WIDTH}.0f 1 {LAST}; printf end")


def expected() -> str:
    digest = hashlib.sha256()
    for begin in range(1, LAST + 1, 100_000):
        block = range(begin, min(begin + 100_000, LAST + 1))
        digest.update("".join(f"{number:0{WIDTH}}\n" for number in block).encode())
    digest.update(b"end")
    return digest.hexdigest()


@pytest.fixture(scope="module")
def cluster():
    machine = Machine()
    try:
        machine.address = machine.start_head()
        machine.join(machine.address, "second", "--num-cpus", "3")
        yield machine
    finally:
        machine.end()


def is_stopped(machine: Machine, name: str) -> bool:
    """Whether a process of the job's member is stopped."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            environment = (stat.parent / "environ").read_bytes().split(b"\0")
            is_of_job = f"PHALANX_JOB={name}".encode() in environment
            if is_of_job and stat.read_text().rpartition(")")[2].split()[0] == "T":
                return True
        except OSError:
            continue
    return False


@pytest.mark.parametrize(("where", "cpus"), [("on this node", "1"), ("on another node", "3")])
def test_all_output_reaches_a_slow_reader(cluster, where, cpus):
    name = f"numbers-{cpus}"
    with cluster.begin(COMMAND, "run", "-n", name, "--cpus", cpus, *NUMBERS) as process:
        fd = process.stdout.fileno()
        first = os.read(fd, 1_000)
        eventually(lambda: is_stopped(cluster, name))
        digest = hashlib.sha256(first)
        while data := os.read(fd, 1 << 20):
            digest.update(data)
        notes = process.stderr.read()
    assert process.returncode == 0, notes
    assert digest.hexdigest() == expected()
    assert notes == f"job {name}\n"


def test_notes_about_dropped_output_are_no_output(cluster):
    cluster.done("run", "-d", "-n", "background", *NUMBERS)
    eventually(lambda: cluster.jobs()["background"]["state"] == "Completed")
    shown = cluster.phalanx("logs", "background")
    assert shown.returncode == 0
    lines = shown.stdout.splitlines()
    assert lines[-1] == "end"
    assert all(line.isdecimal() for line in lines[:-1])
    dropped = int(shown.stderr.split()[1])
    whole = LAST * (WIDTH + 1) + len("end")
    assert shown.stderr == f"phalanx: {dropped} bytes of older output of worker-0 were dropped\n"
    assert dropped + len(shown.stdout) == whole


def test_a_member_that_starts_again_loses_nothing(cluster, tmp_path):
    starts = tmp_path / "starts"
    script = f"echo once >> {starts}; cat {starts}; [ $(wc -l < {starts}) = 2 ]"
    shown = cluster.phalanx("run", "--retries", "1", "--", "sh", "-c", script)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout == "once\nonce\nonce\n"


def memory_peak(pid: int) -> int:
    """The most bytes that a process has had in memory."""
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) << 10 for line in status.splitlines() if "VmHWM" in line)


def test_output_without_line_ends_takes_no_memory(cluster):
    size = 100_000_000
    script = f"head -c {size} /dev/zero"
    with cluster.begin(COMMAND, "run", "--", "sh", "-c", script) as process:
        fd = process.stdout.fileno()
        count = len(os.read(fd, 1))
        before = memory_peak(process.pid)
        while count < size - 1_000_000:
            count += len(os.read(fd, 1_000_000))
        more = memory_peak(process.pid) - before
        while data := os.read(fd, 1 << 20):
            count += len(data)
    assert (process.returncode, count) == (0, size)
    assert more < 30_000_000
