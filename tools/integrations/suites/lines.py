"""The sorted output of programs that run as one, with or without members' names before each
line.
"""

import os
import subprocess
import sys

HERE = os.path.dirname(sys.executable)
GANG = (f"{HERE}/phalanx", "run", "--gang")


def lines(*command, of, **more):
    """Return the lines that begin with the word `of`.

    Fails, with all that was printed, when the command does.
    """
    env = {**os.environ, "PATH": f"{HERE}{os.pathsep}{os.environ['PATH']}", **more}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    bare = [line.split(" | ", 1)[-1] for line in done.stdout.splitlines()]
    return sorted(line for line in bare if line.startswith(of))
