"""A stand-in for the node, as a process's store of large objects sees it."""

from __future__ import annotations

import os
import pickle
from typing import Any

from phalanx.errors import ObjectStoreFullError
from phalanx.runtime.os.shared_memory import SharedStore

MIB = 1 << 20


class Node:
    """A node that gives a store all the credit that it wants, and logs the messages."""

    def __init__(self, base):
        self.shared, self.spill = str(base / "shared"), str(base / "spill")
        os.mkdir(self.shared)
        os.mkdir(self.spill)
        self.granted = 0
        self.log: list[Any] = []
        self.is_full = False
        self.store = SharedStore(
            self.shared,
            self.spill,
            "p",
            self.reserve,
            lambda name, size: self.log.append(("sealed", name)),
            lambda name, size: self.log.append(("returned", name, size)),
            lambda name: self.log.append(("kept", name)),
            lambda name: self.log.append(("given back", name)),
        )

    def reserve(self, wanted):
        if self.is_full:
            raise ObjectStoreFullError("no room")
        self.granted += wanted
        return wanted

    def write(self, value, size=MIB):
        data, hold = self.store.write(b"", [pickle.PickleBuffer(bytes([value]) * size)])
        return data.data.decode(), hold

    def read(self, name):
        mapping = self.store.open(name)
        _, (view,) = self.store.parts(mapping)
        return mapping, view

    def files(self):
        return sorted(os.listdir(self.shared))

    def do_spill(self, name):
        os.rename(os.path.join(self.shared, name), os.path.join(self.spill, name))
        self.store.unmap_spilled([name])
