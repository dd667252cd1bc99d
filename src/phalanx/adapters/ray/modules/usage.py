"""`ray._common.usage.usage_lib`: libraries say what is used of them. Nothing is kept or sent."""

from __future__ import annotations


class _Names(type):
    """Any public name of the class is that name."""

    def __getattr__(cls, name: str) -> str:
        if name.startswith("_"):
            raise AttributeError(name)
        return name


class TagKey(metaclass=_Names):
    """What a library may say of itself: any name."""


def record_library_usage(library_usage: str) -> None:
    """A library is used."""


def record_extra_usage_tag(key: str, value: str, gcs_client: object = None) -> None:
    """A property of how a library is used."""


def usage_stats_enabled() -> bool:
    """Whether what is used is sent anywhere."""
    return False
