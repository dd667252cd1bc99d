"""`ray._common.usage.usage_lib`, to which libraries report their use. Nothing is kept or sent."""

from __future__ import annotations


class _Names(type):
    """The metaclass of a class that has every public attribute. The value of an attribute is its
    name.
    """

    def __getattr__(cls, name: str) -> str:
        if name.startswith("_"):
            raise AttributeError(name)
        return name


class TagKey(metaclass=_Names):
    """The tags of facts that a library may report about itself. Every attribute exists."""


def record_library_usage(library_usage: str) -> None:
    """Do nothing: the use of a library is not recorded."""


def record_extra_usage_tag(key: str, value: str, gcs_client: object = None) -> None:
    """Do nothing: facts about the use of a library are not recorded."""


def usage_stats_enabled() -> bool:
    """Return False: usage is never reported."""
    return False
