"""Run the programs of Ray's core documentation, one after another, each within a time limit.

    python tools/conformance/doc_code.py DIR [--python PYTHON] [--limit S] [--nodes N] [FILE...]

DIR is `doc/source/ray-core/doc_code` of Ray's repository, in a scratch folder. With --nodes N the
programs find a running cluster of N nodes, as `ray.init()` does. With --renamed and
PHALANX_ADDRESS=ray:local they run on the Ray engine, with --on-ray on Ray.
"""

import argparse
import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def run(command, path, limit_s, environment):
    """Run a program. Returns (result, seconds, output)."""
    started = time.monotonic()
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            [*command, str(path)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )
        try:
            code = process.wait(limit_s)
            result = "ok" if code == 0 else f"exit {code}"
        except subprocess.TimeoutExpired:
            result = "too slow"
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        output.seek(0)
        return result, time.monotonic() - started, output.read()


def renamed(path, folder):
    """Write a copy of the program that says `import phalanx as ray`, for engines that do not serve
    Ray's own names. Returns the path of the copy.
    """
    text = re.sub(r"^(\s*)import ray$", r"\1import phalanx as ray", path.read_text(), flags=re.M)
    text = re.sub(r"^(\s*)from ray([. ])", r"\1from phalanx\2", text, flags=re.M)
    copy = folder / path.name
    copy.write_text(text)
    return copy


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("files", nargs="*")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--limit", type=float, default=60.0)
    parser.add_argument("--nodes", type=int, default=0)
    parser.add_argument("--renamed", action="store_true", help="import phalanx in place of ray")
    parser.add_argument("--on-ray", action="store_true", help="run on the installed Ray itself")
    parser.add_argument("--logs", type=Path, help="folder for the programs' output")
    given = parser.parse_args()
    files = [given.folder / name for name in given.files] or sorted(given.folder.glob("*.py"))
    command = [given.python, "-m", "phalanx.compat.ray"]
    if given.on_ray or given.renamed:
        command = [given.python]
    with contextlib.ExitStack() as stack:
        environment = dict(os.environ)
        if not given.on_ray:  # some programs call the command `ray`
            commands = stack.enter_context(tempfile.TemporaryDirectory())
            install = [given.python, "-m", "phalanx", "compat", "ray", "install", commands]
            subprocess.run(install, check=False, stdout=subprocess.DEVNULL)
            environment["PATH"] = commands + os.pathsep + environment["PATH"]
        if given.nodes:
            from phalanx.cluster_utils import Cluster

            cluster = Cluster()
            stack.callback(cluster.shutdown)
            for _ in range(given.nodes):
                cluster.add_node(num_cpus=2, memory=4 * 2**30)
            environment.pop("PHALANX_ADDRESS", None)
            environment["RAY_ADDRESS"] = cluster.address
        good = 0
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for path in files:
            if given.renamed:
                path = renamed(path, scratch)
            result, seconds, text = run(command, path, given.limit, environment)
            good += result == "ok"
            if given.logs:
                given.logs.mkdir(parents=True, exist_ok=True)
                (given.logs / f"{path.stem}.log").write_text(text)
            last = "" if result == "ok" else next(iter(text.splitlines()[-1:]), "")
            print(f"{path.name:55} {result:9} {seconds:5.1f} s  {last[:150]}", flush=True)
    print(f"{good} of {len(files)}")


if __name__ == "__main__":
    main()
