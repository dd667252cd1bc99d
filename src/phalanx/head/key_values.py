"""Bytes that programs store at the head, by namespace and key. The values have no owner: they stay
after the program has ended, until a program deletes them.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from phalanx.errors import MessageTooLargeError
from phalanx.head.state_store import StateStore
from phalanx.model.rows.key_values import KeptValue
from phalanx.protocol.requests.key_values import DeleteValues, GetValue, ListKeys, PutValue
from phalanx.protocol.requests.request import Asker, Entry

VALUE_BYTES = 32 << 20
"""The largest size of a value with its key, in bytes. Value and key are written as one row."""
TABLE_BYTES = 128 << 20
"""The largest total size of all values in bytes. The size of a value includes its key and
KEY_BYTES.
"""
KEY_BYTES = 128
"""Bytes that are counted for each value in addition to its size, so that many small values reach
the limit, too.
"""

Place = tuple[bytes, bytes]


class KeyValues:
    """The table of stored values, and the handlers of requests about them."""

    def __init__(self, state_store: StateStore) -> None:
        self._state_store = state_store
        self._rows: dict[Place, bytes] = {}
        self._bytes = 0

    def entries(self) -> list[Entry]:
        """Return the requests that this object answers, each with its handler."""
        return [
            PutValue.handled_by(self.put),
            GetValue.handled_by(self.get),
            DeleteValues.handled_by(self.delete),
            ListKeys.handled_by(self.list_keys),
        ]

    def restore(self, rows: Iterable[KeptValue]) -> None:
        """Restore what the head knew before it restarted."""
        for row in rows:
            self._set((row.namespace, row.key), row.value)

    def is_kept(self, request: PutValue) -> bool:
        """Whether exactly this value is stored under the key."""
        return self._rows.get((request.namespace, request.key)) == request.value

    def put(self, asker: Asker[bool], request: PutValue) -> bool:
        """Store a value, unless its key is taken and may not be overwritten. Returns whether the
        key was taken.
        """
        place = (request.namespace, request.key)
        if asker.is_again and not request.overwrite and self.is_kept(request):
            return False  # this request has already stored the value, and its answer was lost
        before = self._rows.get(place)
        if before is not None and not request.overwrite:
            return True
        size = _size(place, request.value)
        if size - KEY_BYTES > VALUE_BYTES:
            raise MessageTooLargeError(
                f"The value of {_shown(request.key)} has {size - KEY_BYTES} bytes with its key and "
                f"namespace: at most {VALUE_BYTES} are kept under a key. Put larger values "
                "into the object store (put)."
            )
        total = self._bytes + size - (0 if before is None else _size(place, before))
        if total > TABLE_BYTES:
            raise MessageTooLargeError(
                f"With the value of {_shown(request.key)} the keys and values of the cluster would "
                f"have {total} bytes: at most {TABLE_BYTES} are kept. Delete values that are "
                "not needed any more."
            )
        self._set(place, request.value)
        row = KeptValue(request.namespace, request.key, request.value)
        self._state_store.keep("values", _stored_key(place), row)
        return before is not None

    def get(self, asker: Asker[bytes | None], request: GetValue) -> bytes | None:
        """Return the value of a key, or None."""
        return self._rows.get((request.namespace, request.key))

    def delete(self, asker: Asker[int], request: DeleteValues) -> int:
        """Delete a key, or all keys with a prefix. Returns how many were deleted."""
        keys = [request.key]
        if request.is_prefix:
            keys = self._keys(request.namespace, request.key)
        found = [place for key in keys if (place := (request.namespace, key)) in self._rows]
        for place in found:
            self._bytes -= _size(place, self._rows.pop(place))
            self._state_store.keep("values", _stored_key(place), None)
        return len(found)

    def list_keys(self, asker: Asker[list[bytes]], request: ListKeys) -> list[bytes]:
        """Return the keys that begin with a prefix."""
        return self._keys(request.namespace, request.prefix)

    def _keys(self, namespace: bytes, prefix: bytes) -> list[bytes]:
        return [key for within, key in self._rows if within == namespace and key.startswith(prefix)]

    def _set(self, place: Place, value: bytes) -> None:
        before = self._rows.get(place)
        self._bytes += _size(place, value) - (0 if before is None else _size(place, before))
        self._rows[place] = value


def _size(place: Place, value: bytes) -> int:
    namespace, key = place
    return KEY_BYTES + len(namespace) + len(key) + len(value)


def _stored_key(place: Place) -> bytes:
    return msgspec.msgpack.encode(place)


def _shown(key: bytes) -> str:
    """Return the beginning of a key for display, without control characters."""
    return repr(key[:60])[1:] + ("..." if len(key) > 60 else "")
