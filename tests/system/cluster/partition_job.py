"""The driver of test_partitions. It checks all results, and says when the test should change the
network.

It prints one word per line, which names the next change, and continues when it reads a line.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import numpy as np

import phalanx
from phalanx.errors import PhalanxError

TASKS, ONCE, LARGE = 400, 40, 30_000
PATIENCE_S = 120


@phalanx.remote(max_retries=-1, num_cpus=1)
def leaf(i):
    return np.full(LARGE if i % 20 == 0 else 10, i)


@phalanx.remote(max_retries=-1, num_cpus=1)
def add(a, b):
    return a[:10] + b[:10]


@phalanx.remote(max_retries=0, num_cpus=1)
def once(i, folder):
    """Leave a mark. A second run leaves a second mark."""
    os.close(os.open(f"{folder}/{i}-{time.time_ns()}", os.O_CREAT | os.O_EXCL))
    time.sleep(0.05)
    return i


@phalanx.remote(max_restarts=-1, max_task_retries=-1, num_cpus=0)
class Doubler:
    def double(self, x):
        return 2 * x

    def node(self):
        return phalanx.get_runtime_context().get_node_id()


@phalanx.remote(num_cpus=0)
def where():
    return phalanx.get_runtime_context().get_node_id()


def get(refs):
    return phalanx.get(refs, timeout=PATIENCE_S)


def say(word):
    print(word, flush=True)
    sys.stdin.readline()


def alive():
    return {node["NodeID"] for node in phalanx.nodes() if node["Alive"]}


def submit(first, folder):
    """Submit tasks that depend on each other, and tasks that must not run twice, whose marks are
    numbered from `first` on.
    """
    leaves = [leaf.remote(i) for i in range(TASKS)]
    sums = [add.remote(leaves[i], leaves[(i + 1) % TASKS]) for i in range(TASKS)]
    return sums, [once.remote(first + i, folder) for i in range(ONCE)]


def main():
    address, temp_dir, cut_node, folder = sys.argv[1:]
    phalanx.init(address=address, _temp_dir=temp_dir)
    actors = [Doubler.options(resources={"cut": 0.01}).remote() for _ in range(2)]
    actors += [Doubler.remote() for _ in range(6)]
    assert get([actor.double.remote(1) for actor in actors]) == [2] * 8
    sums, risky = submit(0, folder)
    free = actors[2:]
    calls = [free[i % 6].double.remote(i) for i in range(300)]
    stuck = [actors[i % 2].double.remote(i) for i in range(20)]

    phalanx.wait(sums, num_returns=TASKS // 10, timeout=PATIENCE_S)
    say("blink")
    phalanx.wait(sums, num_returns=TASKS // 4, timeout=PATIENCE_S)
    assert cut_node in alive(), "a short cut is no death"
    say("cut")
    more, more_risky = submit(ONCE, folder)  # some of it goes to the node that nobody can reach
    risky += more_risky
    stuck += [actors[i % 2].double.remote(i) for i in range(20)]
    deadline = time.monotonic() + PATIENCE_S
    while cut_node in alive():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    for part in (sums, more):
        for i, value in enumerate(get(part)):
            assert value[0] == i + (i + 1) % TASKS, i
    assert get(calls) == [2 * i for i in range(300)]
    say("heal")
    # Only a node that comes back holds what these actors ask for.
    assert get(stuck) == [2 * i for i in range(20)] * 2
    back = get(where.options(resources={"cut": 0.01}).remote())
    assert back != cut_node and back in alive()

    lost = 0
    for ref in risky:
        try:
            get(ref)
        except PhalanxError:
            lost += 1
    runs = [path.name.split("-")[0] for path in Path(folder).iterdir()]
    assert len(runs) == len(set(runs)), "what must not be retried ran twice"
    assert len(runs) >= 2 * ONCE - lost
    print(f"lost {lost} of {2 * ONCE}", file=sys.stderr)
    say("done")


if __name__ == "__main__":
    main()
