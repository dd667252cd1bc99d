"""The opening of a store by its written address: `memory`, a path, `sqlite:PATH` or
`redis://...`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from phalanx.storage.errors import StorageAddressError, StorageError
from phalanx.storage.ledger import ENDING
from phalanx.storage.marks import FileMark
from phalanx.storage.memory import MemoryShard
from phalanx.storage.redis_address import SCHEMES, parse_redis_url
from phalanx.storage.shard import Shard
from phalanx.storage.sqlite import MARK, SqliteShard
from phalanx.storage.storage import Storage

AUDIT = ".audit"
"""The ending of the name of the audit log, which lies next to the store."""
MEMORY = "memory"
"""The address of a store that ends with its head."""
_SQLITE = "sqlite:"
_FORMS = "memory, a path or sqlite:PATH, redis://, rediss:// or unix:// and a server"


def open_storage(
    addresses: str | Sequence[str],
    *,
    by_key: Mapping[str, int] | None = None,
    marks: str = "",
    cluster: str = "",
    accept_loss: bool = False,
) -> Storage:
    """Open a store for the one head that writes it; earlier heads are refused from then on.

    Each of several addresses is one shard. `by_key`, `cluster` and `accept_loss` are as in Storage.
    `marks` is a directory of this machine for the marks of stores in servers; "" for no marks.
    Marks of stores in files are next to these files. Raises StorageAddressError for a text that
    names no store, StorageInUseError for a file that another process has open, WritesLostError for
    a store that has lost confirmed batches, and other StorageErrors for errors of files or servers.
    """
    texts = [addresses] if isinstance(addresses, str) else list(addresses)
    if not texts or len(set(texts)) < len(texts):
        raise StorageAddressError(
            f"a store has one or more different shards; of the {len(texts)} given, "
            f"{len(set(texts))} differ. Each is {_FORMS}."
        )
    with contextlib.ExitStack() as opened:
        shards, found = [], []
        for text in texts:
            shard = open_shard(text)
            opened.callback(shard.close)
            shards.append(shard)
            path = mark_path(text, marks)
            mark = FileMark(path) if path else None
            if mark is not None:
                opened.callback(mark.close)
            found.append(mark)
        storage = Storage(
            shards, by_key=by_key or {}, marks=found, cluster=cluster, accept_loss=accept_loss
        )
        opened.pop_all()
        return storage


def store_bytes(addresses: Sequence[str]) -> int:
    """Return the bytes of a store's files on this machine, including write-ahead logs."""
    found = 0
    for path in (mark_path(text, "").removesuffix(MARK) for text in addresses):
        for file in (path, f"{path}-wal") if path else ():
            with contextlib.suppress(OSError):
                found += os.stat(file).st_size
    return found


def mark_path(text: str, directory: str) -> str:
    """Return the path of the mark of the shard at this address; empty for a shard without a
    mark.
    """
    if text == MEMORY:
        return ""
    path = file_of(text)
    if path:
        return path + MARK
    return os.path.join(directory, parse_redis_url(text).file_name + MARK) if directory else ""


def file_of(text: str) -> str:
    """Return the absolute path of the file of a shard; "" for a shard without a file."""
    if text == MEMORY or _is_server(text):
        return ""
    return os.path.abspath(text.removeprefix(_SQLITE))


def history_path(text: str, directory: str) -> str:
    """Return the path of the history of jobs for the first shard's address.

    The history is next to the shard if the shard is a file, and otherwise in `directory`, on the
    head's machine. For `memory` the path is "", and the history is kept with the head's other
    files.
    """
    mark = mark_path(text, directory)
    return mark.removesuffix(MARK) + ENDING if mark else ""


def audit_path(text: str, directory: str) -> str:
    """Return the path of the audit log, by the rules of `history_path`."""
    mark = mark_path(text, directory)
    return mark.removesuffix(MARK) + AUDIT if mark else ""


def delete_audit(store: str) -> None:
    """Delete the audit log of the store in this file, with the older files of the log."""
    for path in Path(store).parent.glob(f"{Path(store).name}{AUDIT}*"):
        path.unlink(missing_ok=True)


def _is_server(text: str) -> bool:
    scheme, colon, _ = text.partition("://")
    return bool(colon) and scheme in SCHEMES


def open_shard(text: str) -> Shard:
    """Return the shard at an address, without claiming it. Raises StorageError."""
    if text == MEMORY:
        return MemoryShard()
    scheme, colon, _ = text.partition("://")
    if _is_server(text):
        try:
            from phalanx.storage.redis_shard import RedisShard
        except ModuleNotFoundError as error:
            raise StorageError(
                "a Redis store needs the package redis: `pip install phalanx[redis]`."
            ) from error
        return RedisShard(parse_redis_url(text))
    path = text.removeprefix(_SQLITE)
    if colon or not path or path.endswith("/") or "\0" in path:
        shown = f"{scheme}://..." if colon else repr(text)
        raise StorageAddressError(f"{shown} names no store. Use {_FORMS}.")
    return SqliteShard(path)
