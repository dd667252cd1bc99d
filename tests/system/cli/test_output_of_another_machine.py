"""A member on another machine prints 200 MB: the command shows all of it, and no process needs much
memory for it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.system.cli.conftest import COMMAND, Machine
from tests.system.cluster.network import Network, why_no_hosts
from tests.system.people.test_laptop import OnHost

from .test_whole_output import memory_peak

LAST, WIDTH = 2_000_000, 99
MOST_BYTES = 40_000_000
"""The most bytes by which the memory of any process may grow while the output passes."""


@pytest.fixture
def machines() -> Iterator[tuple[Machine, Machine]]:
    """Yield the machine with the head, on which the command runs, and the machine of the member."""
    if reason := why_no_hosts():
        pytest.skip(reason)
    network = Network()
    made: list[OnHost] = []
    try:
        made = [OnHost(network.add_host()) for _ in range(2)]
        first, second = made
        address = first.start_head("--host", first.host.address)
        private = Path(second.home, ".phalanx")
        private.mkdir(mode=0o700)
        shutil.copy(Path(first.home, ".phalanx", "token"), private / "token")
        small = ("--num-cpus", "3", "--object-store-memory", "80000000")
        second.done("start", "--address", address, "--host", second.host.address, *small)
        yield first, second
    finally:
        for one in made:
            one.end()
        network.close()


def peaks(*machines: Machine) -> dict[int, int]:
    """Return the peak memory of each process of these machines, in bytes, by process id."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            environment = (entry / "environ").read_bytes()
            if any(f"HOME={one.home}".encode() in environment for one in machines):
                found[int(entry.name)] = memory_peak(int(entry.name))
        except (OSError, StopIteration):  # it has ended
            continue
    return found


@pytest.mark.slow
def test_all_output_of_another_machine_passes_in_little_memory(
    machines: tuple[Machine, Machine],
) -> None:
    first, _ = machines
    digest, size = hashlib.sha256(), 0
    numbers = ("--", "seq", "-f", f"%0{WIDTH}.0f", "1", str(LAST))
    whole = LAST * (WIDTH + 1)
    before: dict[int, int] = {}
    after: dict[int, int] = {}
    with first.begin(COMMAND, "run", "-n", "numbers", "--cpus", "3", *numbers) as process:
        fd = process.stdout.fileno()  # type: ignore[union-attr]
        while data := os.read(fd, 1 << 20):
            digest.update(data)
            size += len(data)
            if not before:
                before = peaks(*machines)
            if not after and size > whole - 5_000_000:
                after = peaks(*machines)
        notes = process.stderr.read()  # type: ignore[union-attr]
    assert (process.returncode, size) == (0, whole), notes
    expected = hashlib.sha256()
    for number in range(1, LAST + 1):
        expected.update(f"{number:0{WIDTH}}\n".encode())
    assert digest.hexdigest() == expected.hexdigest()
    assert process.pid in before
    grown = {pid: after[pid] - before[pid] for pid in before.keys() & after.keys()}
    assert len(grown) >= 5, "the command, a head, and nodes with their processes"
    print(f"most more memory of a process: {max(grown.values()) / 1e6:.1f} MB")
    assert max(grown.values()) < MOST_BYTES
