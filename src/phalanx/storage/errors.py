"""Errors of the store; each message names the store and says what would be right."""

from __future__ import annotations

from phalanx.errors import PhalanxError


class StorageError(PhalanxError):
    """The root of all errors of the store."""


class StorageAddressError(StorageError, ValueError):
    """A text that should name a store does not name one."""


class StaleEpochError(StorageError):
    """Another head has opened the store in the meantime, so this head must stop. Nothing was
    written.
    """


class StorageInUseError(StorageError):
    """Another process of this machine has the file open."""


class StorageCorruptError(StorageError):
    """The stored bytes are not what was written; the message names the file."""


class StorageFullError(StorageError):
    """There is no room for the batch. The batch may be tried again once there is some."""


class StorageUnreachableError(StorageError):
    """The server did not answer, or not from enough replicas, within the time allowed.

    Whether the last batch was written is not known.
    """


class WritesLostError(StorageError):
    """The store lacks batches that it had confirmed.

    Its log was cut, the store was emptied, or another server took over that did not have these
    batches.
    """
