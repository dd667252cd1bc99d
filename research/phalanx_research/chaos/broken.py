"""The error for a broken invariant in a simulation."""

from __future__ import annotations


class Broken(Exception):
    """Raised when an invariant of the cluster was broken. `sentence` describes the invariant.
    `involved` has the names of the parties whose events explain the failure.
    """

    def __init__(self, sentence: str, involved: list[str]) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.involved = involved


def group_name(group: bytes) -> str:
    """Return a group's id for display. The ids of drivers' groups are readable words; the ids of
    jobs' gangs are not.
    """
    return group.decode().strip() if group.isascii() else group.hex()[:12]
