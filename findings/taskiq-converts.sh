#!/usr/bin/env bash
# Asked: taskiq: a task has the parameter `x: int` and is called with "5", True, 5.7 and "five". What
#   does it get?
# Good guess: What the caller passed: annotations are for readers and type checkers.
# Truth: 5, 1, 5.7 and "five": a worker converts arguments to the annotated types, and where that
#   fails it passes the value on as it is, with a line in the log. The function gets a str or a float
#   for its int only if conversion was impossible; direct calls of the function convert nothing.
# Seen with: taskiq==0.13.0, Python 3.11, Linux, 2026-11-28.
# Source: taskiq/receiver/params_parser.py.
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check taskiq==0.13.0
cd "$work"
cat > program.py <<'PROGRAM'
import asyncio
import logging
from importlib.metadata import version

from taskiq import InMemoryBroker

logging.disable(logging.CRITICAL)
broker = InMemoryBroker()


@broker.task
async def seen(x: int):
    return [type(x).__name__, x]


async def main():
    found = []
    for value in ("5", True, 5.7, "five"):
        result = await (await seen.kiq(value)).wait_result(timeout=10)
        found.append(result.return_value)
        print(repr(value), "->", found[-1])
    print("called directly with '5' ->", await seen("5"))
    return found


if __name__ == "__main__":
    print("taskiq", version("taskiq"))
    found = asyncio.run(main())
    assert found == [["int", 5], ["int", 1], ["float", 5.7], ["str", "five"]], found
PROGRAM
"$work/venv/bin/python" program.py
