"""Runs commands, and reads the sorted lines of their output. The names of members before the lines
are removed.
"""

import os
import subprocess
import sys

HERE = os.path.dirname(sys.executable)
GANG = (f"{HERE}/phalanx", "run", "--gang")


def lines(*command, of, **more):
    """Run a command, and return, sorted, the lines of its output that begin with the word `of`.

    If the command fails, this fails with the command's whole output.
    """
    env = {**os.environ, "PATH": f"{HERE}{os.pathsep}{os.environ['PATH']}", **more}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    bare = [line.split(" | ", 1)[-1] for line in done.stdout.splitlines()]
    return sorted(line for line in bare if line.startswith(of))
