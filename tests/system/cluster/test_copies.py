"""Files of objects that are created and deleted: the memory of a deleted file is used again, unless
a reader still uses it.
"""

from __future__ import annotations

import os

import numpy as np
from tests.polling import eventually

import phalanx

SIZE = 300_000


@phalanx.remote(num_cpus=0, resources={"there": 1})
def make(i):
    return np.full(SIZE, i)


@phalanx.remote(num_cpus=1, resources={"here": 1})
def both_ends(array):
    return array[0], array[-1]


def is_made_in_one_of(inodes, function, get, shared):
    """Whether a new result is stored in files that existed before."""
    value = get(function.remote(-1))
    found = {file.inode() for file in os.scandir(shared)} <= inodes
    del value
    return found


def test_what_is_read_stays_as_it_was_while_copies_come_and_go(new_cluster, get):
    cluster = new_cluster(1)
    cluster.add_node(num_cpus=1, resources={"there": 10})
    shared = cluster.head_node.daemon.session.shared
    kept = {}
    inodes = set()
    for i in range(30):
        value = get(make.remote(i))
        inodes |= {file.inode() for file in os.scandir(shared)}
        if i % 3 == 0:
            kept[i] = value  # its reference is gone, and its bytes are read still
        del value
    for i, value in kept.items():
        assert (value == i).all()
    # A worker is told at its own pace that nobody reads a file any more.
    eventually(lambda: is_made_in_one_of(inodes, make, get, shared), "files are used again")


def test_tasks_that_read_more_than_a_node_holds_wait_and_nothing_is_lost(new_cluster, get):
    """In an earlier version an object counted as lost if its copy went away before the task that
    had asked for the copy had mapped it.
    """
    cluster = new_cluster(1)
    store_bytes = 3 * SIZE * 8
    cluster.add_node(num_cpus=1, resources={"there": 100})
    cluster.add_node(num_cpus=4, resources={"here": 100}, object_store_memory=store_bytes)
    made = [make.options(max_retries=0).remote(i) for i in range(24)]
    read = [both_ends.remote(array) for array in made]
    assert get(read) == [(i, i) for i in range(24)]


@phalanx.remote(num_cpus=1)
def fill(i):
    return np.full(SIZE, i)


@phalanx.remote(num_cpus=0)
class Keeper:
    def __init__(self):
        self.kept = {}

    def keep(self, i, array):
        self.kept[i] = array

    def is_as_it_was(self):
        return all((array == i).all() for i, array in self.kept.items())


def test_what_is_read_stays_as_it_was_while_results_come_and_go(new_cluster, get):
    """There are readers in this process and in another one. A worker reuses a file only if nobody
    reads it.
    """
    cluster = new_cluster(1)
    shared = cluster.head_node.daemon.session.shared
    keeper = Keeper.remote()
    kept = {}
    inodes = set()
    for i in range(30):
        ref = fill.remote(i)
        value = get(ref)
        inodes |= {file.inode() for file in os.scandir(shared)}
        if i % 5 == 0:
            kept[i] = value
        elif i % 5 == 1:
            get(keeper.keep.remote(i, ref))
        del value, ref
    assert all((value == i).all() for i, value in kept.items())
    assert get(keeper.is_as_it_was.remote())
    # A worker is told at its own pace that nobody reads a file any more.
    eventually(lambda: is_made_in_one_of(inodes, fill, get, shared), "files are used again")
