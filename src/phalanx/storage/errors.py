"""Errors of the store, each with the place and what would be right."""

from __future__ import annotations

from phalanx.errors import PhalanxError


class StorageError(PhalanxError):
    """The root of all errors of the store."""


class StorageAddressError(StorageError, ValueError):
    """A text that should name a store does not."""


class StaleEpochError(StorageError):
    """Another head has opened the store since; this one must stop, and nothing was written."""


class StorageInUseError(StorageError):
    """Another process of this machine has the file open."""


class StorageCorruptError(StorageError):
    """The stored bytes are not what was written; the message names the file."""


class StorageFullError(StorageError):
    """There is no room for the batch. It may be tried again once there is some."""


class StorageUnreachableError(StorageError):
    """The server did not answer, or not from enough replicas, within the time allowed.

    Whether the last batch was written is not known.
    """


class WritesLostError(StorageError):
    """The store lacks batches that it had confirmed.

    Its log was cut, it was emptied, or another server took over that did not have them.
    """
