"""Where in a program objects were made: recorded where the environment asks for it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from phalanx.objects.reference import ObjectRef

VARIABLES = (
    "PHALANX_RECORD_CALL_SITES",
    "RAY_record_ref_creation_sites",
    "RAY_record_task_actor_creation_sites",
)
"""Set to 1, or to anything but 0 and nothing, they ask for it. Ray's names count, too."""
FRAMES = 3
"""So many of the program's frames are noted, the innermost first."""
_OURS = str(Path(__file__).resolve().parents[2]) + os.sep
"""The files of this package: frames in them are not the program's."""


def are_recorded() -> bool:
    """Whether the environment asks for it."""
    return any(os.environ.get(name, "0") not in ("", "0") for name in VARIABLES)


def place_of(how: str) -> str:
    """Where the program is now, and by which call."""
    frame: Any = sys._getframe(1)
    places = [f"({how})"]
    while frame is not None and len(places) <= FRAMES:
        code = frame.f_code
        if not code.co_filename.startswith(_OURS):
            places.append(f"{code.co_filename}:{code.co_qualname}:{frame.f_lineno}")
        frame = frame.f_back
    return " | ".join(places)


class CallSites:
    """The places of this process's objects, as long as there are references to them."""

    def __init__(self) -> None:
        self._sites: WeakKeyDictionary[ObjectRef[Any], str] = WeakKeyDictionary()

    def note(self, refs: Sequence[ObjectRef[Any]], how: str) -> None:
        """The program makes these objects now, by a call of this kind."""
        site = place_of(how)
        for ref in refs:
            self._sites[ref] = site

    def of(self, ref: ObjectRef[Any]) -> str:
        """Where an object was made; where that is not known, that it came from elsewhere."""
        return self._sites.get(ref, "(from another process)")
