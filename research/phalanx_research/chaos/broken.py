"""The error of a simulation: something that was promised did not hold."""

from __future__ import annotations


class Broken(Exception):
    """A promise did not hold. `sentence` says which; `involved`: names whose story tells how."""

    def __init__(self, sentence: str, involved: list[str]) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.involved = involved


def group_name(group: bytes) -> str:
    """A placement group's id for people: those of drivers are words, those of jobs are not."""
    return group.decode().strip() if group.isascii() else group.hex()[:12]
