"""The process that reads a node's devices, so that a hanging driver delays nothing else.

It writes a line of JSON for each reading to its standard output, and ends when that is closed.
"""

from __future__ import annotations

import contextlib
import os
import sys

import msgspec

from phalanx.observe.devices import DeviceSample
from phalanx.runtime.devices.opening import open_reader
from phalanx.runtime.devices.reader import NoDevicesError
from phalanx.runtime.os.process_names import READER, name_process
from phalanx.runtime.os.process_tree import end_with_parent


class Look(msgspec.Struct, frozen=True):
    """The samples of one reading, or why there are none."""

    samples: list[DeviceSample] = []
    trouble: str = ""


def main(source: str, every_s: float) -> None:
    """Read each `every_s` seconds, and at once after a critical error."""
    end_with_parent()
    name_process(READER)
    try:
        reader = open_reader(source)
    except NoDevicesError as error:
        _say(Look(trouble=str(error)))
        return
    with contextlib.suppress(BrokenPipeError):
        while True:
            try:
                _say(Look(reader.read()))
            except NoDevicesError as error:
                _say(Look(trouble=str(error)))
            reader.wait(every_s)
    reader.close()


def _say(look: Look) -> None:
    line = msgspec.json.encode(look) + b"\n"
    while line:
        line = line[os.write(1, line) :]


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
