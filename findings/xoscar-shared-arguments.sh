#!/usr/bin/env bash
# Asked: xoscar: a program passes a list to an actor of its own process, and the method appends
#   to it. Does the caller's list change?
# Good guess: No: arguments of actors' calls are copied, wherever the actor is.
# Truth: Yes: within one process arguments and results are the same objects. With the actor in a
#   sub-process of the pool the caller's list stays as it was, so a program's results depend on
#   where its actors are.
# Seen with: xoscar==0.12.2, Python 3.11, Linux, 2026-11-28.
# Source: xoscar/backends/communication/dummy.py, the channel within a process.
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check xoscar==0.12.2
cd "$work"
cat > program.py <<'PROGRAM'
import asyncio
from importlib.metadata import version

import xoscar


class Appender(xoscar.Actor):
    def append(self, items):
        items.append(1)
        return items


async def results():
    seen = {}
    pool = await xoscar.create_actor_pool("127.0.0.1:0", n_process=1)
    async with pool:
        for name, address in (
            ("own process", pool.external_address),
            ("sub-process", next(iter(pool.sub_processes))),
        ):
            actor = await xoscar.create_actor(Appender, address=address)
            items = []
            answer = await actor.append(items)
            seen[name] = (items, answer is items)
    return seen


if __name__ == "__main__":
    print("xoscar", version("xoscar"))
    seen = asyncio.run(results())
    for name, (items, is_same) in seen.items():
        print(f"actor in the {name}: the caller's list is {items}, the result is it: {is_same}")
    assert seen == {"own process": ([1], True), "sub-process": ([], False)}
PROGRAM
"$work/venv/bin/python" program.py
