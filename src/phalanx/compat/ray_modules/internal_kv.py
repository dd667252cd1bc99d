"""`ray.experimental.internal_kv`: bytes by key for the whole cluster, kept by a named actor."""

from __future__ import annotations

from typing import Any

from phalanx.api.actors import ActorClass
from phalanx.api.objects import get
from phalanx.api.session import is_initialized

Key = str | bytes


class _Table:
    """Values by (namespace, key)."""

    def __init__(self) -> None:
        self._rows: dict[tuple[bytes, bytes], bytes] = {}

    def put(self, space: bytes, key: bytes, value: bytes, overwrite: bool) -> bool:
        is_there = (space, key) in self._rows
        if overwrite or not is_there:
            self._rows[space, key] = value
        return is_there

    def read(self, space: bytes, key: bytes) -> bytes | None:
        return self._rows.get((space, key))

    def delete(self, space: bytes, key: bytes, is_prefix: bool) -> int:
        found = self.keys(space, key) if is_prefix else [key]
        return sum(self._rows.pop((space, one), None) is not None for one in found)

    def keys(self, space: bytes, prefix: bytes) -> list[bytes]:
        return [key for within, key in self._rows if within == space and key.startswith(prefix)]


_TABLE: ActorClass[_Table] = ActorClass(_Table, {"num_cpus": 0})


def _bytes(text: Key | None) -> bytes:
    return text.encode() if isinstance(text, str) else text or b""


def _ask(method: str, *args: Any) -> Any:
    options = {"name": "internal_kv", "namespace": "phalanx.compat", "lifetime": "detached"}
    table = _TABLE.options(**options, get_if_exists=True).remote()
    return get(getattr(table, method).remote(*args))


def _internal_kv_initialized() -> bool:
    return is_initialized()


def _initialize_internal_kv(gcs_client: object = None) -> None:
    """The table is there from its first use on."""


def _internal_kv_reset() -> None:
    """No connection is kept."""


def _internal_kv_get(key: Key, *, namespace: Key | None = None) -> bytes | None:
    found: bytes | None = _ask("read", _bytes(namespace), _bytes(key))
    return found


def _internal_kv_exists(key: Key, *, namespace: Key | None = None) -> bool:
    return _internal_kv_get(key, namespace=namespace) is not None


def _internal_kv_put(
    key: Key, value: Key, overwrite: bool = True, *, namespace: Key | None = None
) -> bool:
    """Whether the key was there before."""
    return bool(_ask("put", _bytes(namespace), _bytes(key), _bytes(value), overwrite))


def _internal_kv_del(key: Key, *, del_by_prefix: bool = False, namespace: Key | None = None) -> int:
    """How many were removed."""
    return int(_ask("delete", _bytes(namespace), _bytes(key), del_by_prefix))


def _internal_kv_list(prefix: Key, *, namespace: Key | None = None) -> list[bytes]:
    found: list[bytes] = _ask("keys", _bytes(namespace), _bytes(prefix))
    return found
