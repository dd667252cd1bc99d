"""Copies of other nodes' objects that come and go: their memory is used again, never a reader's."""

from __future__ import annotations

import os

import numpy as np

import phalanx

SIZE = 300_000


@phalanx.remote(num_cpus=0, resources={"there": 1})
def make(i):
    return np.full(SIZE, i)


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
    assert len(inodes) < 30, "files were used again"
