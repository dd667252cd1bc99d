"""The error of a simulation: a promise that did not hold."""

from __future__ import annotations


class Broken(Exception):
    """A promise did not hold.

    `sentence` says which one. `involved`: the names whose story explains it.
    """

    def __init__(self, sentence: str, involved: list[str]) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.involved = involved


def group_name(group: bytes) -> str:
    """Return a group's id for display: drivers' ids are words, jobs' ids are not."""
    return group.decode().strip() if group.isascii() else group.hex()[:12]
