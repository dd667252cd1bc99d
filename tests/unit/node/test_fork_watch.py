"""The watch over the fork server: it asks whether the fork server answers only after orders, and
continues a fork server that is silent.
"""

from __future__ import annotations

from phalanx.node.fork_watch import ASK_AFTER_S, SILENT_S, ForkWatch


class World:
    """A fork server that answers as a test says, and what its watch does."""

    def __init__(self) -> None:
        self.now = 100.0
        self.done: list[str] = []
        self.watch = ForkWatch(lambda: self.now, self, lambda text, **about: None)

    def ask(self) -> None:
        self.done.append("ask")

    def rouse(self) -> None:
        self.done.append("rouse")

    def pass_time(self, seconds: float) -> list[str]:
        """Let time pass; return what the watch did in this time."""
        self.done = []
        until = self.now + seconds
        while self.now < until:
            self.now += 0.05
            self.watch.tick(self.now)
        return self.done


def test_nobody_asks_a_fork_server_that_was_ordered_nothing_or_answers():
    world = World()
    assert world.pass_time(60.0) == []
    world.watch.ordered()
    world.watch.heard()
    assert world.pass_time(60.0) == []


def test_an_order_without_a_word_after_it_has_it_asked_once():
    world = World()
    world.watch.heard()
    world.watch.ordered()
    assert world.pass_time(ASK_AFTER_S + 0.1) == ["ask"]
    world.watch.heard()
    assert world.pass_time(60.0) == []
    assert not world.watch.trouble


def test_a_silent_one_is_continued_until_it_answers():
    world = World()
    world.watch.heard()
    world.watch.ordered()
    done = world.pass_time(ASK_AFTER_S + 3.5 * SILENT_S)
    assert done == ["ask", "rouse", "rouse", "rouse"]
    assert "does not answer" in world.watch.trouble
    world.watch.ordered()
    assert world.pass_time(0.1) == [], "what it has not answered is not asked twice"
    world.watch.heard()
    assert not world.watch.trouble
    assert world.pass_time(60.0) == []


def test_one_that_still_imports_is_in_no_trouble():
    world = World()
    world.watch.ordered()
    world.pass_time(30.0)
    assert not world.watch.trouble
