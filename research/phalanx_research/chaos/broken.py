"""The error of a simulation: a promise that did not hold."""

from __future__ import annotations


class Broken(Exception):
    """A promise did not hold.

    `sentence` says which promise. `involved` has the names whose story explains the failure.
    """

    def __init__(self, sentence: str, involved: list[str]) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.involved = involved


def group_name(group: bytes) -> str:
    """Return a group's id for display: the ids of drivers' groups are words, those of jobs are
    not.
    """
    return group.decode().strip() if group.isascii() else group.hex()[:12]
