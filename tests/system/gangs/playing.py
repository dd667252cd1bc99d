"""The program of a member in the random runs, for members that are tasks and for members that are
commands.

It imports little, so that it begins soon.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time


class Notes:
    """The file in which each member writes a line at its start and at its end."""

    def __init__(self, path):
        self.path = str(path)

    def write(self, **fact):
        with open(self.path, "a") as file:
            file.write(json.dumps({**fact, "at": time.monotonic()}) + "\n")

    def read(self):
        with open(self.path) as file:
            # A line that is being written just now may be seen in part.
            return [json.loads(line) for line in file if line.endswith("\n")]

    def running(self):
        """Return the lines of the starts that have no matching end yet, by process."""
        begun = {}
        for line in self.read():
            if line["what"] == "begin":
                begun[line["pid"]] = line
            else:
                begun.pop(line["pid"], None)
        return begun


def play(notes, marks, fact, least, seconds):
    """Run as a member: wait until `least` members of the gang run, work for a while, and end. End
    immediately on SIGTERM.
    """

    def end(*_):
        notes.write(**fact, what="end")
        os._exit(1)

    signal.signal(signal.SIGTERM, end)
    notes.write(**fact, what="begin")
    open(os.path.join(marks, f"{fact['gang']}.{fact['rank']}"), "w").close()
    while sum(name.startswith(f"{fact['gang']}.") for name in os.listdir(marks)) < least:
        time.sleep(0.005)
    time.sleep(seconds)
    notes.write(**fact, what="end")
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def main(path, marks, name, least, seconds):
    """Run as a member of a job."""
    env = os.environ
    fact = {
        "gang": name, "rank": int(env["PHALANX_TASK_INDEX"]),
        "pid": os.getpid(), "node": env["PHALANX_NODE"],
        "devices": [int(device) for device in env["CUDA_VISIBLE_DEVICES"].split(",")],
        "ports": [int(env["MASTER_PORT"])], "size": int(env["WORLD_SIZE"]),
    }  # fmt: skip
    play(Notes(path), marks, fact, int(least), float(seconds))


if __name__ == "__main__":
    main(*sys.argv[1:])
