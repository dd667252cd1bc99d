"""How many examples property tests try: a third in `make test`, all in `make test-slow`."""

from __future__ import annotations

from hypothesis import settings


def register_profiles() -> None:
    """Make "quick" the profile that is used unless another one is requested."""
    settings.register_profile("quick", max_examples=35, deadline=None)
    settings.register_profile("full", max_examples=100, deadline=None)
    settings.load_profile("quick")


def examples(full: int) -> int:
    """Return `full` in the profile "full" (`pytest --hypothesis-profile full`), else a third of
    it.
    """
    if settings.get_current_profile_name() == "full":
        return full
    return max(full // 3, min(full, 10))
