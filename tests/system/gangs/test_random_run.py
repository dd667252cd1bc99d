"""Random runs in which members and whole nodes are killed. The records of all members are
checked.
"""

from __future__ import annotations

import itertools
import os
import random
import signal
import sys
from typing import Any

import pytest
from tests.polling import PATIENCE_S, eventually
from tests.present import own_gang
from tests.unit.head.gangs.checking import faults, left, merged, of_gangs

import phalanx

from . import playing
from .conftest import none_left
from .playing import Notes, play

GPUS = 4
"""The GPUs of each node."""


@phalanx.remote(num_gpus=1, num_cpus=0, max_retries=-1)
def member(notes, marks, name, least, seconds):
    context = phalanx.get_runtime_context()
    gang = own_gang()
    fact = {
        "gang": name, "rank": gang.rank, "pid": os.getpid(), "node": context.get_node_id(),
        "devices": gang.devices, "ports": gang.ports, "size": gang.world_size,
    }  # fmt: skip
    play(notes, marks, fact, least, seconds)
    return gang.rank


class Run:
    """Gangs and jobs of two queues on a cluster that loses members and nodes."""

    def __init__(self, cluster, directory, seed):
        self.cluster = cluster
        self.rng = random.Random(seed)
        self.notes = Notes(directory / "notes")
        self.notes.write(what="seed", seed=seed, pid=0)
        self.marks = directory / "marks"
        self.marks.mkdir()
        self.gangs = {}
        self.jobs = {}
        self.sizes = {}
        self.elastic = set()
        """Gangs of which fewer may begin: those that come later count the ranks anew."""
        self.events = []

    def draw(self):
        size = self.rng.choice((1, 1, 2, 3, 5, 7))
        least = size if self.rng.random() < 0.7 else self.rng.randint(1, size)
        options = {"queue": self.rng.choice("ab"), "priority": self.rng.choice((0, 0, 0, 3))}
        return size, least, options, self.rng.uniform(0, 0.1)

    def start_gang(self, name):
        size, least, options, seconds = self.draw()
        gang = member.gang(size, min_members=least, ports=2, grace_s=60, **options)
        self.gangs[name] = gang.remote(self.notes, str(self.marks), name, least, seconds)
        self.sizes[name] = size
        if least < size:
            self.elastic.add(name)

    def start_job(self, name):
        size, least, options, seconds = self.draw()
        asked = (self.notes.path, self.marks, name, least, seconds)
        job = phalanx.Job(
            [sys.executable, "-I", playing.__file__, *asked], name=name, members=size,
            min_members=least, num_cpus=0, num_gpus=1, max_retries=-1, grace_s=60, **options,
        )  # fmt: skip
        self.jobs[name] = phalanx.submit(job)
        self.sizes[name] = size

    def look(self):
        """Read the events that the head has recorded since the last time."""
        self.events = merged(self.events, of_gangs(phalanx.cluster_events()))

    def kill_member(self):
        running = self.notes.running()
        if running:
            pid = self.rng.choice(sorted(running))
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                return  # it ended meanwhile
            self.notes.write(what="killed", pid=pid)

    def kill_node(self):
        node = self.rng.choice(self.cluster.list_all_nodes()[1:])
        self.cluster.remove_node(node, allow_graceful=False)
        for pid, line in self.notes.running().items():
            if line["node"] == node.node_id:
                self.notes.write(what="killed", pid=pid)
        self.cluster.add_node(num_cpus=1, num_gpus=GPUS)

    def ends(self):
        return sum(line["what"] == "end" for line in self.notes.read())

    def await_ends(self, count):
        eventually(lambda: self.ends() >= count or self.is_over())

    def trouble(self, member_kills, node_kills):
        """Kill members and nodes in random order. Before each kill, wait until a few more members
        have ended.
        """
        todo = [self.kill_member] * member_kills + [self.kill_node] * node_kills
        self.rng.shuffle(todo)
        for kill in todo:
            self.await_ends(self.ends() + 2)
            kill()
            self.look()

    def is_over(self):
        return not self.notes.running() and none_left()

    def finish(self):
        for name, gang in self.gangs.items():
            ranks = phalanx.get(list(gang), timeout=PATIENCE_S)
            assert name in self.elastic or ranks == list(range(len(gang)))
        for job in self.jobs.values():
            assert job.wait(PATIENCE_S) == "Completed"
        eventually(none_left)
        self.look()


def spans(lines):
    """Yield (begin, end, facts) for each member that ran. A process runs many members, one at a
    time.
    """
    begun = {}
    for line in lines:
        if line["what"] == "begin":
            assert line["pid"] not in begun, "a process began twice"
            begun[line["pid"]] = line
        elif line["pid"] in begun:
            first = begun.pop(line["pid"])
            yield first["at"], line["at"], first
    assert not begun, "these never ended"


def assert_apart(held, what):
    """Fail if two of these periods overlap."""
    for (_, end, one), (begin, _, other) in itertools.pairwise(sorted(held)):
        assert begin >= end, f"{what}: {one} and {other} at once"


def check(run):
    """Check that no device and no port was used by two members at a time, and that no gang began
    with a part of its members.
    """
    found = list(spans(sorted(run.notes.read(), key=lambda line: line["at"])))
    devices: dict[Any, list[Any]] = {}
    ports: dict[int, dict[str, list[Any]]] = {}
    for begin, end, line in found:
        who = f"{line['gang']}.{line['rank']}"
        for device in line["devices"]:
            devices.setdefault((line["node"], device), []).append((begin, end, who))
        for port in line["ports"]:
            ports.setdefault(port, {}).setdefault(line["gang"], []).append((begin, end))
    for key, held in devices.items():
        assert_apart(held, key)
    for port, gangs in ports.items():
        whole = [(min(s)[0], max(end for _, end in s), gang) for gang, s in gangs.items()]
        assert_apart(whole, port)
    for name, size in run.sizes.items():
        ranks = {line["rank"] for _, _, line in found if line["gang"] == name}
        assert ranks <= set(range(size)), name
        assert len(ranks) == size or name in run.elastic, name
    assert list(faults(run.events)) == []
    assert left(run.events) == set()
    assert sum(row["event"] == "MembersPlaced" for row in run.events) >= len(run.sizes)


def play_out(new_cluster, directory, seed, *, gangs, jobs, member_kills, node_kills):
    cluster = new_cluster(
        {"num_cpus": 1, "num_gpus": 2},
        *[{"num_cpus": 1, "num_gpus": GPUS}] * 3,
        limits={"reconnect_s": 0.3},
    )
    phalanx.create_queue("a", weight=2)
    phalanx.create_queue("b")
    run = Run(cluster, directory, seed)
    for number in range(max(gangs, jobs)):
        if number < gangs:
            run.start_gang(f"g{number}")
        if number < jobs:
            run.start_job(f"j{number}")
    run.trouble(member_kills, node_kills)
    run.finish()
    check(run)


def test_members_and_nodes_are_killed_and_nothing_is_shared_or_begun_in_part(new_cluster, tmp_path):
    play_out(new_cluster, tmp_path, 7, gangs=24, jobs=8, member_kills=4, node_kills=2)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(3))
def test_a_long_run_in_which_members_and_nodes_are_killed(new_cluster, tmp_path, seed):
    play_out(new_cluster, tmp_path, seed, gangs=200, jobs=60, member_kills=30, node_kills=20)
