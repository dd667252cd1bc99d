"""Facts about the logs of members that several rooms share."""

from __future__ import annotations

from typing import Final

MAY_BE_LOST: Final = "output may be lost"
"""A text for a member's reason. It says that the member's output may be incomplete."""


def preparing_log(log: str) -> str:
    """Return the path of the log about the preparation of a member's environment. The file lies
    beside the member's own log.
    """
    return f"{log.removesuffix('.log')}.preparing.log"


def task_name(index: int | str) -> str:
    """Return the name of an array task in the paths of its files."""
    return f"e{index}"


def for_any_task(path: str, index: int) -> str:
    """Return the path of an array task's log with `{}` in place of the task's index. All tasks of
    an array that ran on one node then have the same path.
    """
    name, any_name = f"/{task_name(index)}", f"/{task_name('{}')}"
    # an earlier version put each task's files into a directory of its own
    return path.replace(f"{name}-", f"{any_name}-").replace(f"{name}/", f"{any_name}/")


def for_task(path: str, index: int) -> str:
    """Return the path of an array task's log. `path`: the common path that `for_any_task`
    returned.
    """
    return path.replace(f"/{task_name('{}')}", f"/{task_name(index)}")
