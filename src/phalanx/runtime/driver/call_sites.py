"""Records the places in a program that made objects, if the environment asks for that."""

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
"""The environment variables that turn on the recording of call sites. Any value does, except 0 and
"". The first name is Phalanx's; the others are Ray's.
"""
FRAMES = 3
"""The number of the program's frames that are recorded for each call site, from the innermost one
outwards.
"""
_PACKAGE = str(Path(__file__).resolve().parents[2]) + os.sep
"""The folder of this package. Frames in its files do not belong to the program."""


def are_recorded() -> bool:
    """Whether the environment turns on the recording of call sites."""
    return any(os.environ.get(name, "0") not in ("", "0") for name in VARIABLES)


def place_of(how: str) -> str:
    """Return, as text, the place in the program's code that is running now. `how`: the kind of call
    that the program makes there, for example "actor call".
    """
    frame: Any = sys._getframe(1)
    places = [f"({how})"]
    while frame is not None and len(places) <= FRAMES:
        code = frame.f_code
        if not code.co_filename.startswith(_PACKAGE):
            places.append(f"{code.co_filename}:{code.co_qualname}:{frame.f_lineno}")
        frame = frame.f_back
    return " | ".join(places)


class CallSites:
    """The places where this process's objects were made, while references to these objects
    exist.
    """

    def __init__(self) -> None:
        self._sites: WeakKeyDictionary[ObjectRef[Any], str] = WeakKeyDictionary()

    def note(self, refs: Sequence[ObjectRef[Any]], how: str) -> None:
        """Record that the program makes these objects at its current place. `how`: the kind of the
        call that makes them.
        """
        site = place_of(how)
        for ref in refs:
            self._sites[ref] = site

    def of(self, ref: ObjectRef[Any]) -> str:
        """Return where an object was made, or a note that the object came from another process."""
        return self._sites.get(ref, "(from another process)")
