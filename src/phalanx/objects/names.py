"""Names of objects' files: the hex of the writer's process id, a dash, a number."""

from __future__ import annotations

from phalanx.model.ids import PREFIX_BYTES


def is_name(name: str) -> bool:
    """Whether a name from another process is a valid one, which cannot lead out of the session's
    directories.
    """
    return "/" not in name and "\0" not in name and name not in ("", ".", "..")


def prefix_of_name(name: str) -> bytes:
    """Return the prefix of the node where an object was written; empty for an invalid name."""
    try:
        return bytes.fromhex(name[: 2 * PREFIX_BYTES])
    except ValueError:
        return b""


def writer_of_name(name: str) -> bytes:
    """Return the id of the process that wrote an object; empty for an invalid name."""
    try:
        return bytes.fromhex(name.partition("-")[0])
    except ValueError:
        return b""


def spare_file(name: str) -> str:
    """Return the name under which the file of a dropped object is pooled. No reader looks for this
    name.
    """
    return f"{name}.spare"
