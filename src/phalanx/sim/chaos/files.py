"""Simulated files of large objects: on one machine, and fetched from another."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from phalanx.model.ids import PREFIX_BYTES
from phalanx.objects.file_hold import FileHold
from phalanx.objects.names import prefix_of_name
from phalanx.objects.pulling import AGAIN_S, GIVE_UP_S
from phalanx.protocol.messages import SHARED, Value

if TYPE_CHECKING:
    from phalanx.sim.chaos.hosts import Host
    from phalanx.sim.chaos.world import World

SIZE_BYTES = 1000
_COPY_S = 0.01


class ProcessFiles:
    """One process's access to the files of its machine; see `owner.objects.table.Files`."""

    def __init__(self, host: Host, process_id: bytes) -> None:
        self._files = host.files
        self._process_id = process_id
        self._count = 0
        self.dropped: deque[tuple[str, Any, bool, Any]] = deque()

    def hold(self, name: str, size: int) -> FileHold:
        """See Files."""
        return FileHold(self, name, size, None)

    def is_here(self, name: str) -> bool:
        """See Files."""
        return name in self._files

    def lend(self, name: str) -> None:
        """See FileStore."""

    def write(self, content: bytes) -> Value:
        """A new file's payload."""
        self._count += 1
        name = f"{self._process_id.hex()}-{self._count}"
        self._files[name] = content
        return Value(SHARED, name.encode(), size=SIZE_BYTES)

    def can_be_elsewhere(self, name: str) -> bool:
        """Whether another node may have this file."""
        return prefix_of_name(name) != self._process_id[:PREFIX_BYTES]


class Pulls:
    """Copies files of other machines to one of them."""

    def __init__(self, world: World, host: Host) -> None:
        self._world = world
        self._host = host

    def pull(self, name: str, done: Callable[[bool], None]) -> None:
        """Have a file come; `done(whether it is here)`."""
        self._look(name, done, self._world.kernel.now + GIVE_UP_S)

    def _look(self, name: str, done: Callable[[bool], None], give_up_at: float) -> None:
        world, source = self._world, self._world.host_of(prefix_of_name(name))
        if name in self._host.files:
            done(True)
        elif source is None or not source.is_up or world.kernel.now >= give_up_at:
            done(False)
        elif world.network.is_blocked(self._host, source):
            self._host.later(AGAIN_S, lambda: self._look(name, done, give_up_at))
        else:
            self._host.later(_COPY_S * source.slowness, lambda: self._copy(name, source, done))

    def _copy(self, name: str, source: Host, done: Callable[[bool], None]) -> None:
        content = source.files.get(name) if source.is_up else None
        if content is not None:
            self._host.files[name] = content
        done(content is not None)
