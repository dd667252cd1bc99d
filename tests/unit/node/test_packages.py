"""Packages that a node fetches: each one time, in parts, for all members that wait for it."""

from __future__ import annotations

from collections.abc import Collection
from types import SimpleNamespace
from typing import Any

import pytest

from phalanx.node.packages import Packages
from phalanx.protocol.bundle_messages import FetchPackage, PackagePart


class Store:
    """Keeps packages in memory."""

    def __init__(self) -> None:
        self.data: dict[str, bytes] = {}
        self.whole: set[str] = set()
        self.error: Exception | None = None

    def has(self, sha256: str) -> bool:
        return sha256 in self.whole

    def add(self, sha256: str, offset: int, data: bytes, total: int) -> None:
        if self.error is not None:
            raise self.error
        self.data[sha256] = self.data.get(sha256, b"") + data
        if len(self.data[sha256]) == total:
            self.whole.add(sha256)

    def make_room(self, wanted: int, kept: Collection[str]) -> None:
        pass


class World:
    """A node's packages, and the requests that it sends to its head."""

    def __init__(self) -> None:
        self.asked: list[FetchPackage] = []
        self.done: list[Any] = []
        self.store = Store()
        head: Any = SimpleNamespace(notify=self.asked.append)
        self.packages = Packages(self.store, head)

    def want(self, who: str, *wanted: str) -> None:
        self.packages.want(wanted, lambda why: self.done.append((who, why)))

    def part(self, name: str, offset: int, data: bytes, size: int) -> None:
        self.packages.part(PackagePart(name, offset, data, size))


@pytest.fixture
def world():
    return World()


def test_two_members_wait_for_one_fetch(world):
    world.want("a", "x")
    world.want("b", "x", "y")
    assert world.asked == [FetchPackage("x", 0), FetchPackage("y", 0)]
    world.part("x", 0, b"12", 3)
    world.part("x", 0, b"12", 3)  # it comes twice
    assert world.asked[2:] == [FetchPackage("x", 2)]
    world.part("x", 2, b"3", 3)
    assert world.done == [("a", "")]
    world.part("y", 0, b"1", 1)
    assert world.done == [("a", ""), ("b", "")]
    world.want("c", "x", "y")
    assert world.done[2:] == [("c", "")]
    assert len(world.asked) == 3


def test_a_package_that_cannot_come_fails_all_that_wait(world):
    world.want("a", "x", "y")
    world.want("b", "x")
    world.part("x", 0, b"", -1)
    assert [who for who, why in world.done] == ["a", "b"]
    assert all("submit the job again" in why for _, why in world.done)
    world.part("y", 0, b"1", 1)
    assert len(world.done) == 2


@pytest.mark.parametrize(
    ("error", "words"),
    [(OSError(28, "No space left"), "No space left"), (ValueError("bad"), "bad")],
)
def test_a_package_that_cannot_be_kept_says_why(world, error, words):
    world.store.error = error
    world.want("a", "x")
    world.part("x", 0, b"1", 1)
    assert words in world.done[0][1]
    world.store.error = None
    world.want("b", "x")
    world.part("x", 0, b"1", 1)
    assert world.done[1:] == [("b", "")], "it may be tried again"


def test_a_new_connection_asks_again(world):
    world.want("a", "x")
    world.part("x", 0, b"12", 3)
    world.packages.again()
    assert world.asked[-1] == FetchPackage("x", 2)
