"""Names of objects' files: the hex of the writer's process id, a dash, a number."""

from __future__ import annotations

from phalanx.model.ids import PREFIX_BYTES


def is_name(name: str) -> bool:
    """Names come from other processes: none may lead out of the session's directories."""
    return "/" not in name and "\0" not in name and name not in ("", ".", "..")


def prefix_of_name(name: str) -> bytes:
    """The node where an object was written; empty for what is no name."""
    try:
        return bytes.fromhex(name[: 2 * PREFIX_BYTES])
    except ValueError:
        return b""


def writer_of_name(name: str) -> bytes:
    """The process that wrote the object; empty for what is no name."""
    try:
        return bytes.fromhex(name.partition("-")[0])
    except ValueError:
        return b""


def spare_file(name: str) -> str:
    """What the file of an object that is gone is called while it waits to be written over. No
    reader looks for it."""
    return f"{name}.spare"
