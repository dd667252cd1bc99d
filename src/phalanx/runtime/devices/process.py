"""The process that reads a node's devices, so that a hanging driver delays nothing else.

It writes a line of JSON for each reading to its standard output, and ends when the output is
closed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time

import msgspec

from phalanx.observe.devices import DeviceSample
from phalanx.runtime.devices.opening import open_reader
from phalanx.runtime.devices.reader import DeviceReader, NoDevicesError
from phalanx.runtime.os.process_names import READER, name_process
from phalanx.runtime.os.process_tree import end_with_parent

ASKED_WITHIN_S = 0.25
"""The longest time, in seconds, for which one call waits for a critical error. Between two calls,
the process notices that the node asks for a reading.
"""


class Look(msgspec.Struct, frozen=True):
    """The samples of one reading, or the reason why there are none."""

    samples: list[DeviceSample] = []
    trouble: str = ""


def main(source: str, every_s: float) -> None:
    """Read the devices every `every_s` seconds, after each critical error, and whenever the node
    asks for a reading.

    The node asks by SIGUSR1.
    """
    soon: list[int] = []
    signal.signal(signal.SIGUSR1, lambda number, frame: soon.append(number))
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
            _wait(reader, every_s, soon)
    reader.close()


def _wait(reader: DeviceReader, every_s: float, soon: list[int]) -> None:
    """Wait until a reading is due, a critical error comes, or the node asks for a reading."""
    end = time.monotonic() + every_s
    while not soon and (left_s := end - time.monotonic()) > 0:
        if reader.wait(min(left_s, ASKED_WITHIN_S)):
            break
    soon.clear()


def _say(look: Look) -> None:
    line = msgspec.json.encode(look) + b"\n"
    while line:
        line = line[os.write(1, line) :]


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
