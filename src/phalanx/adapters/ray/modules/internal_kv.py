"""`ray.experimental.internal_kv`: values in bytes under keys, which the cluster's head keeps."""

from __future__ import annotations

from phalanx.api.session import engine_or_start, is_initialized
from phalanx.errors import SystemFailureError
from phalanx.protocol.requests.key_values import DeleteValues, GetValue, ListKeys, PutValue

Key = str | bytes
_RESERVED = b"@namespace_"


def _bytes(text: Key | None) -> bytes:
    return text.encode() if isinstance(text, str) else text or b""


def _key(key: Key) -> bytes:
    """Return the key as bytes. Raises SystemFailureError for a key with a prefix that Ray
    reserves.
    """
    if (found := _bytes(key)).startswith(_RESERVED):
        raise SystemFailureError(
            f"The key {found!r} begins with {_RESERVED.decode()}, which is reserved."
        )
    return found


def _internal_kv_initialized() -> bool:
    return is_initialized()


def _initialize_internal_kv(gcs_client: object = None) -> None:
    """Do nothing: the table always exists."""


def _internal_kv_reset() -> None:
    """Do nothing: no connection is kept."""


def _internal_kv_get(key: Key, *, namespace: Key | None = None) -> bytes | None:
    return engine_or_start().ask(GetValue(_bytes(namespace), _key(key)))


def _internal_kv_exists(key: Key, *, namespace: Key | None = None) -> bool:
    return _internal_kv_get(key, namespace=namespace) is not None


def _internal_kv_put(
    key: Key, value: Key, overwrite: bool = True, *, namespace: Key | None = None
) -> bool:
    """Store a value. Returns whether the key existed before.

    Raises MessageTooLargeError for a value above 32 MiB, and when all values of the cluster
    together would exceed 128 MiB.
    """
    request = PutValue(_bytes(namespace), _key(key), _bytes(value), overwrite)
    return engine_or_start().ask(request)


def _internal_kv_del(key: Key, *, del_by_prefix: bool = False, namespace: Key | None = None) -> int:
    """Delete keys. Returns the number of deleted keys."""
    return engine_or_start().ask(DeleteValues(_bytes(namespace), _key(key), del_by_prefix))


def _internal_kv_list(prefix: Key, *, namespace: Key | None = None) -> list[bytes]:
    return engine_or_start().ask(ListKeys(_bytes(namespace), _key(prefix)))
