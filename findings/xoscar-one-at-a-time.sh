#!/usr/bin/env bash
# Asked: xoscar: two calls of one actor's `async` method are awaited together; each sleeps and
#   then writes what it read before. Do they overlap?
# Good guess: Yes, as in Ray's asynchronous actors: both read 0, and both return 1.
# Truth: No: an actor finishes one call before it begins the next, also when the call only
#   waits. The results are 1 and 2. `StatelessActor` has calls that overlap.
# Seen with: xoscar==0.12.2, Python 3.11, Linux, 2026-11-28.
# Source: xoscar/core.pyx, the lock of Actor and StatelessActor.
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


class Counter(xoscar.Actor):
    def __init__(self):
        self.value = 0

    async def add(self):
        before = self.value
        await asyncio.sleep(0.3)
        self.value = before + 1
        return self.value


class Overlapping(xoscar.StatelessActor):
    def __init__(self):
        self.value = 0

    add = Counter.add


async def results(kind):
    pool = await xoscar.create_actor_pool("127.0.0.1:0", n_process=1)
    async with pool:
        actor = await xoscar.create_actor(kind, address=pool.external_address)
        return await asyncio.gather(actor.add(), actor.add())


if __name__ == "__main__":
    print("xoscar", version("xoscar"))
    alone, overlapping = asyncio.run(results(Counter)), asyncio.run(results(Overlapping))
    print("Actor:", alone)
    print("StatelessActor:", overlapping)
    assert alone == [1, 2]
    assert overlapping == [1, 1]
PROGRAM
"$work/venv/bin/python" program.py
