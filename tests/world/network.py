"""Messages between the parties of a world, which the test delivers, loses, repeats or reorders."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol


class Party(Protocol):
    """A head, node, owner or worker."""

    name: str

    def hear(self, sender: Party, message: Any) -> None:
        """Handle a message that has arrived."""
        ...


class Letter(NamedTuple):
    """A message on its way."""

    sender: Party
    receiver: Party
    message: Any


class Network:
    """All messages on their way, in the order of sending.

    For a network that keeps the order, a test delivers `on_the_way[0]`. For one that does not, it
    delivers any letter. It removes letters that are to be lost.
    """

    def __init__(self, *, is_instant: bool = False) -> None:
        self.is_instant = is_instant
        """Whether messages arrive before `send` returns."""
        self.on_the_way: list[Letter] = []
        self.counts: dict[type[Any], int] = {}
        """The number of messages sent, by kind."""

    def send(self, sender: Party, receiver: Party, message: Any) -> None:
        self.counts[type(message)] = self.counts.get(type(message), 0) + 1
        letter = Letter(sender, receiver, message)
        if self.is_instant:
            self.deliver(letter)
        else:
            self.on_the_way.append(letter)

    def deliver(self, letter: Letter) -> None:
        """Deliver a message, even one that was removed or delivered before."""
        letter.receiver.hear(letter.sender, letter.message)

    def next(self, at: int = 0) -> Letter:
        """Deliver the letter at a position; return it."""
        letter = self.on_the_way.pop(at)
        self.deliver(letter)
        return letter

    def run(self) -> list[Letter]:
        """Deliver all letters in order, with those that follow from them; return them."""
        delivered = []
        while self.on_the_way:
            delivered.append(self.next())
        return delivered

    def cut(self, party: Party) -> None:
        """Lose the messages on their way to or from a party."""
        self.on_the_way = [
            one for one in self.on_the_way if one.sender is not party and one.receiver is not party
        ]
