"""A process that runs the programs of one side. Each line of its input is a program, in JSON. The
process needs nothing but Python, because the other system's environment has no package of Phalanx.
The first program is the *opening*: later programs see the names that it defines. Each program runs
in an empty directory. The process prints its output, or the class of its error, as a line of JSON.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import tempfile
import traceback


def main() -> None:
    """Run programs until the input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # a library that prints must not disturb the answers
    known: dict[str, object] = {"__name__": "__main__"}
    names = known
    for line in sys.stdin:
        text = io.StringIO()
        with tempfile.TemporaryDirectory(prefix="bd-", dir="/tmp") as directory:
            os.chdir(directory)
            with contextlib.redirect_stdout(text):
                try:
                    exec(json.loads(line), names)
                except Exception as error:
                    traceback.print_exc()
                    print(type(error).__name__)
            os.chdir("/")
        print(json.dumps(text.getvalue()), file=answers, flush=True)
        names = dict(known)
    close = known.get("close")
    if callable(close):
        close()


if __name__ == "__main__":
    main()
