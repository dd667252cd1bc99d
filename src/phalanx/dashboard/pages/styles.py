"""The looks of jobs and queues on maps: colours with textures. No two jobs (or queues) have the
same look, unless there are more jobs (or queues) than looks. The colours are in `static/page.css`
(`--j0` to `--j11`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from zlib import crc32

COLOURS = 12
TEXTURES = 4
"""The textures: plain, rising stripes, falling stripes, and dots."""
LOOKS = COLOURS * TEXTURES
"""The number of looks. Look n has the colour n % COLOURS and the texture n // COLOURS."""


class Looks:
    """The looks of the names on a map. A name keeps its look while it is on the map."""

    def __init__(self) -> None:
        self._looks: dict[str, int] = {}

    def of(self, names: Iterable[str], near: Mapping[str, Collection[str]]) -> dict[str, int]:
        """Return the look of each name. Up to `LOOKS` names have different looks, and plain colours
        are used first. With more names, a name's look differs from the looks of the names `near` it
        on the map.
        """
        wanted = list(dict.fromkeys(names))
        kept = {name: self._looks[name] for name in wanted if name in self._looks}
        used = [0] * LOOKS
        for look in kept.values():
            used[look] += 1
        for name in wanted:
            if name not in kept:
                taken = {kept[other] for other in near.get(name, ()) if other in kept}
                look = kept[name] = _free(name, used, taken)
                used[look] += 1
        self._looks = kept
        return {name: kept[name] for name in wanted}


def _free(name: str, used: list[int], taken: Collection[int]) -> int:
    """Return the least used look; plain looks come first. The search among the colours of a texture
    begins at a colour that depends on the name, so a job usually has the same colour on all pages.
    """
    first = crc32(name.encode()) % COLOURS
    order = sorted(
        range(LOOKS), key=lambda look: (used[look], look // COLOURS, (look - first) % COLOURS)
    )
    return next((look for look in order if look not in taken), order[0])
