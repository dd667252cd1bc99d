"""Errors of the store. Each error's text names the store and a remedy."""

from __future__ import annotations

from phalanx.errors import PhalanxError


class StorageError(PhalanxError):
    """The root of all errors of the store."""


class StorageAddressError(StorageError, ValueError):
    """Raised for a text that is not the address of a store."""


class StaleEpochError(StorageError):
    """Raised when another head has opened the store, so that this head must stop. The refused batch
    was not written.
    """


class StorageInUseError(StorageError):
    """Raised when another process of this machine has the file open."""


class StorageCorruptError(StorageError):
    """Raised when the stored bytes differ from the written bytes. The message names the file."""


class StorageFullError(StorageError):
    """Raised when there is no room for the batch. The caller may try the same batch again when
    there is room.
    """


class StorageUnreachableError(StorageError):
    """Raised when the server, or too many of its replicas, did not answer in time.

    It is unknown whether the last batch was written.
    """


class WritesLostError(StorageError):
    """Raised when the store lacks batches that it had confirmed.

    Either its log was cut, the store was emptied, or a server without these batches took over.
    """
