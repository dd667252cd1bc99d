"""Tries what one person may do on the given ways to the head: `python cells.py PERSON NODE WAY
...`.

Prints for each way and verb whether the request was allowed. Only an answer that says so counts as
a refusal. Any other answer, such as that a job is over, is given after the rights were checked.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from http.cookiejar import CookieJar
from typing import Any

import phalanx
from phalanx.adapters.slurm.commands.running import function_of
from phalanx.api.new_manifests import job_manifest, new_request
from phalanx.cli import main
from phalanx.cli.ending import Ended
from phalanx.errors import NotAllowedError
from phalanx.protocol.requests.cluster import DrainNode
from phalanx.protocol.requests.jobs import CommandJob, ListJobs, ReadJobLog, UpdateJob
from phalanx.protocol.requests.queues import CreateQueue, OpenQueue, QueueFields
from phalanx.protocol.requests.request import Request
from phalanx.protocol.requests.rights import SetRole
from phalanx.runtime.daemons.finding import ask_cluster

Try = Callable[[], object]
Tries = Iterator[tuple[str, Try]]
NOT_ALLOWED = 4
_TIMES = ("--start", "now+2d", "--for", "10m", "-u", "root")
_DRAIN = ("state=drain", "reason=tried")


def by_python(person: str, node: str) -> Tries:
    theirs = phalanx.JobHandle(f"of-root-python-{person}")
    yield "see", phalanx.jobs
    yield "logs", theirs.logs
    yield (
        "submit",
        lambda: phalanx.submit(phalanx.Job("true", name=f"made-python-{person}", queue="lab")),
    )
    yield "raise", lambda: theirs.update(priority=5)
    yield "change", theirs.cancel
    yield "open queue", lambda: phalanx.open_queue("lab")
    yield "create queue", lambda: phalanx.create_queue("made")


def by_socket(person: str, node: str) -> Tries:
    theirs = f"default/of-root-socket-{person}"

    def ask(request: Request[Any]) -> Try:
        return lambda: ask_cluster(None, request, 60.0)

    yield "see", ask(ListJobs())
    yield "logs", ask(ReadJobLog(theirs, "worker-0"))
    mine = phalanx.Job("true", name=f"made-socket-{person}", queue="lab", working_dir="/")
    yield "submit", ask(new_request([job_manifest(mine.spec())]))
    yield "raise", ask(UpdateJob(theirs, priority=5))
    yield "change", ask(CommandJob(theirs, "cancel"))
    yield "drain", ask(DrainNode("00" * 28, "tried"))
    yield "open queue", ask(OpenQueue("lab"))
    yield "create queue", ask(CreateQueue("made", QueueFields()))
    yield "set role", ask(SetRole("nobody", "default"))


def by_command(person: str, node: str, way: str = "command") -> Tries:
    theirs = f"of-root-{way}-{person}"

    def run(*words: str) -> Try:
        def run_it() -> None:
            sys.argv = ["phalanx", *words]
            try:
                main()
            except SystemExit as ended:
                if ended.code == NOT_ALLOWED:
                    raise NotAllowedError(str(words)) from None

        return run_it

    yield "see", run("jobs")
    yield "logs", run("logs", theirs)
    yield "submit", run("run", "-d", "--name", f"made-{way}-{person}", "-q", "lab", "--", "true")
    yield "raise", run("update", theirs, "--priority", "5")
    yield "change", run("cancel", theirs)
    yield "drain", run("drain", node)
    yield "reserve", run("reserve", f"tried-{way}-{person}", *_TIMES, "--nodes", "1")
    yield "open queue", run("queue", "open", "lab")
    yield "create queue", run("queue", "create", "made")
    yield "set role", run("set-role", "nobody", "default")


def by_token(person: str, node: str) -> Tries:
    """Yield one try for each verb, made by commands on a machine without a node, over TLS."""
    return by_command(person, node, "token")


def by_slurm(person: str, node: str) -> Tries:
    def run(name: str, *words: str) -> str:
        out, err = io.StringIO(), io.StringIO()
        shown = contextlib.redirect_stdout(out), contextlib.redirect_stderr(err)
        with shown[0], shown[1], contextlib.suppress(Ended, SystemExit):
            function_of(name)(words)
        if "may not" in err.getvalue():
            raise NotAllowedError(err.getvalue())
        return out.getvalue()

    number = run("squeue", "-h", "-a", "-o", "%i", "--name", f"of-root-slurm-{person}").strip()
    yield "see", lambda: run("squeue")
    yield "submit", lambda: run("sbatch", "-p", "lab", "--wrap", "true")
    if number:
        yield "raise", lambda: run("scontrol", "update", f"jobid={number}", "priority=5")
        yield "change", lambda: run("scancel", number)
    there = run("sinfo", "-h", "-N", "-o", "%N").split()[0]
    yield "drain", lambda: run("scontrol", "update", f"nodename={there}", *_DRAIN)
    yield "open queue", lambda: run("scontrol", "update", "partitionname=lab", "state=up")
    name = f"reservation=tried-{person}"
    what = ("starttime=now+2days", "duration=10", "nodecnt=1", "users=root")
    yield "reserve", lambda: run("scontrol", "create", name, *what)


def by_page(person: str, node: str) -> Tries:
    """Yield one try for each verb, made on the page that the person starts and signs in to."""
    command = (sys.executable, "-m", "phalanx", "dashboard")
    shown = subprocess.run(
        [*command, "--port", "0"], check=False, capture_output=True, text=True, env=os.environ
    )
    assert shown.returncode == 0, shown.stderr
    base, code = shown.stdout.split("\n")[1].split("/login#code=")
    cookies = urllib.request.HTTPCookieProcessor(CookieJar())
    opener = urllib.request.build_opener(cookies)

    def ask(path: str, data: bytes | None = None) -> str:
        request = urllib.request.Request(base + path, data, {"Sec-Fetch-Site": "same-origin"})
        try:
            with opener.open(request, timeout=60) as answer:
                text: str = answer.read().decode()
        except urllib.error.HTTPError as error:
            text = error.read().decode()
        if "may not" in text:
            raise NotAllowedError(text)
        return text

    theirs = f"/jobs/default/of-root-page-{person}"
    try:
        ask("/login", f"code={code}".encode())
        yield "see", lambda: ask(f"/jobs?q=of-root-page-{person}").index(f'href="{theirs}')
        yield "logs", lambda: ask(f"{theirs}/log?member=worker-0")
        yield "change", lambda: ask(f"{theirs}/cancel", b"")
    finally:
        subprocess.run([*command, "--stop"], check=False, capture_output=True, env=os.environ)


def tried(tries: Tries) -> dict[str, bool]:
    found = {}
    for verb, attempt in tries:
        try:
            attempt()
        except NotAllowedError:
            found[verb] = False
        except Exception as error:
            print(f"{verb}: {type(error).__name__}: {error}", file=sys.stderr)
            found[verb] = verb != "see"
        else:
            found[verb] = True
    return found


WAYS = {
    "python": by_python,
    "socket": by_socket,
    "command": by_command,
    "token": by_token,
    "slurm": by_slurm,
    "page": by_page,
}

if __name__ == "__main__":
    person, node, *ways = sys.argv[1:]
    os.chdir("/")
    if "python" in ways:
        phalanx.init("auto")
    outcome = {}
    with contextlib.redirect_stdout(io.StringIO()):
        for way in ways:
            outcome[way] = tried(WAYS[way](person, node))
    print("outcome", json.dumps(outcome), flush=True)
