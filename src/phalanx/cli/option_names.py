"""Errors of Python's interface in the words of the command line: options in place of keywords."""

from __future__ import annotations

import re
from collections.abc import Mapping

OF_START = {
    name: f"--{name.replace('_', '-')}"
    for name in ("num_cpus", "num_gpus", "resources", "object_store_memory")
}
"""The options of `phalanx start` by the keywords of `init`."""
OF_JOB = {
    **{
        name: f"--{name.replace('_', '-')}"
        for name in (
            *("memory", "queue", "priority", "name", "time", "begin", "deadline", "signal"),
            *("requeue", "movable", "after", "array", "hold", "reservation", "licenses", "env"),
            *("gpu_memory", "gpu_memory_limit", "gpu_share", "gpu_compute"),
        )
    },
    "command": "COMMAND",
    "members": "--gang",
    "min_members": "--min",
    "num_cpus": "--cpus",
    "num_gpus": "--gpus",
    "resources": "--gpus",
    "memory_limit": "--memory",
    "max_retries": "--retries",
    "time_limit_s": "--time-limit",
    "grace_s": "--grace",
}
"""The options of `phalanx run` and `phalanx alloc` by the fields of `Job`."""
_KEYWORD = re.compile(r"The keyword '(\w+)'|^(\w+)=?|\b(\w+)=|\b(\w+_\w+)\b")
"""Where an error names a keyword. A word in the middle of an error is a keyword only with an
underscore or an equals sign.
"""


def with_options(text: str, options: Mapping[str, str]) -> str:
    """Return an error's text with options in place of keywords. `options`: the options by the
    keywords that set the same fields.
    """

    def replaced(found: re.Match[str]) -> str:
        option = options.get(found[found.lastindex or 0])
        if option is None:
            return found[0]
        is_before_value = found[0].endswith("=") and found.string[found.end() :][:1] != " "
        return f"{option} " if is_before_value else option

    return _KEYWORD.sub(replaced, text.removeprefix("Job: "))
