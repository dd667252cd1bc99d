"""Stand-ins for the files of objects: simulated tasks have results that travel in messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence


class NoFiles:
    """See object_store.StoreFiles and object_room.SpillFiles. There is no file."""

    def is_in_memory(self, name: str) -> bool:
        """See StoreFiles."""
        return False

    is_here = is_in_memory

    def stat(self, name: str) -> tuple[float, int] | None:
        """See StoreFiles."""
        return None

    def delete(self, name: str) -> None:
        """See StoreFiles."""

    delete_spilled = delete

    def rename(self, name: str, to: str) -> None:
        """See StoreFiles."""

    def written_by(self, process: bytes) -> list[str]:
        """See StoreFiles."""
        return []

    def copy(self, names: Sequence[str], copied: Callable[[list[OSError | None]], None]) -> None:
        """See SpillFiles."""
        copied([FileNotFoundError(name) for name in names])

    def keep_copy(self, name: str) -> bool:
        """See SpillFiles."""
        return False

    def discard_copy(self, name: str) -> None:
        """See SpillFiles."""


class NoTransfers:
    """See object_store.Transfers. Nothing is copied between nodes."""

    def pull(self, name: str, size: int, nodes: Sequence[bytes], on_disk: bool, spare: str) -> None:
        """See Transfers."""

    def let_go(self, name: str) -> None:
        """See Transfers."""
