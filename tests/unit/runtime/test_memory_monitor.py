"""Workers that are ended when memory runs short: how memory is measured, and which worker is
chosen.
"""

from __future__ import annotations

import pytest
from tests.unit.node.leasing import Node

from phalanx.runtime.node.memory import MemoryMonitor
from phalanx.runtime.os.memory_room import MemoryRoom, fullest_memory

MIB, GIB = 1 << 20, 1 << 30
GROUPS = "sys/fs/cgroup"


def write(directory, **files):
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (directory / name.replace("__", ".")).write_text(f"{text}\n")


def in_group(root, line):
    write(root / "proc/self", cgroup=f"9:name=systemd:/\n{line}")
    return fullest_memory(root)


def test_the_fullest_limit_above_counts_without_inactive_pages(tmp_path):
    top = {"memory__max": "max", "memory__current": 900 * MIB}
    write(
        tmp_path / GROUPS / "a",
        memory__max=100 * MIB,
        memory__current=50 * MIB,
        memory__stat="anon 1",
    )
    stat = f"anon 7\ninactive_file {5 * MIB}\nactive_file 9"
    write(
        tmp_path / GROUPS / "a/b",
        memory__max=40 * MIB,
        memory__current=44 * MIB,
        memory__stat=stat,
    )
    write(tmp_path / GROUPS / "a/b/c", **top)
    room = in_group(tmp_path, "0::/a/b/c")
    assert (room.used_bytes, room.limit_bytes) == (39 * MIB, 40 * MIB)
    assert "control group" in room.whose
    write(tmp_path / GROUPS / "a", memory__current=99 * MIB)
    assert in_group(tmp_path, "0::/a/b/c").limit_bytes == 100 * MIB


def test_groups_of_the_first_version_and_of_a_container(tmp_path):
    usage = {"memory__usage_in_bytes": 990 * MIB, "memory__limit_in_bytes": 1000 * MIB}
    write(tmp_path / GROUPS / "memory", **usage, memory__stat=f"total_inactive_file {10 * MIB}")
    room = in_group(tmp_path, "4:cpu,memory:/docker/0123")
    assert (room.used_bytes, room.limit_bytes) == (980 * MIB, 1000 * MIB)


@pytest.mark.parametrize("line", ["0::/", "0::/gone", "4:memory:/x", "3:cpuset:/"])
def test_without_a_limit_it_is_the_machine(tmp_path, line):
    write(
        tmp_path / GROUPS / "memory/x",
        memory__limit_in_bytes=2**63 - 4096,
        memory__usage_in_bytes=1,
    )
    assert in_group(tmp_path, line).whose == "the node's"


class Watched:
    """A node whose workers use given amounts of memory, and its memory monitor."""

    def __init__(self):
        self.node = Node(CPU=8)
        self.machine = self.node.machine
        self.used = 95
        self.sizes = {}
        self.monitor = MemoryMonitor(
            self.machine, 0.9, lambda: MemoryRoom(self.used * GIB, 100 * GIB, "the"), self.size
        )

    def size(self, pids):
        return {pid: self.sizes.get(pid, 0) for pid in pids}

    def runs(self, name, **more):
        """Start a worker of that owner, a second after the previous worker."""
        self.node.now += 1
        self.node.want(name, **more)
        (lease,) = [x for x in self.machine.leases.values() if x.demand.owner[:1] == name.encode()]
        lease.worker.pid = self.node.count
        return lease

    def picked(self):
        found = self.monitor.worker_to_end()
        return None if found is None else found[0]


def test_retriable_work_ends_first_and_the_newest_of_it():
    watched = Watched()
    watched.runs("a")
    newer = watched.runs("b").worker.worker_id
    watched.runs("c", retriable=False)
    assert watched.picked() == newer


def test_what_cannot_be_tried_again_ends_when_there_is_nothing_else():
    watched = Watched()
    only = watched.runs("a", retriable=False).worker.worker_id
    assert watched.picked() == only


def test_nobody_else_ends_before_the_last_one_has():
    watched = Watched()
    first, second = watched.runs("a").worker, watched.runs("b").worker
    assert watched.picked() == second.worker_id
    assert watched.picked() is None
    watched.machine.worker_gone(second.worker_id, watched.node.now)
    assert watched.picked() == first.worker_id
    watched.machine.worker_gone(first.worker_id, watched.node.now)
    watched.used = 80
    watched.runs("c")
    assert watched.picked() is None


def test_a_large_idle_worker_ends_before_any_that_works():
    watched = Watched()
    idle = watched.runs("a")
    watched.runs("b")
    watched.sizes[idle.worker.pid] = 2 * GIB
    watched.machine.returned(idle.number, True, watched.node.now)
    assert watched.picked() == idle.worker.worker_id
