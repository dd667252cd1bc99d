#!/usr/bin/env bash
# Asked: aiomultiprocess: `await pool.apply(work)`, where `work` raises KeyError. Which error comes?
# Good guess: KeyError, as with `multiprocessing.Pool` and asyncio.
# Truth: ProxyException, which derives from Exception alone; its only content is the text of the
#   traceback. `except KeyError` around a call catches nothing, and the error's arguments are lost.
# Seen with: aiomultiprocess==0.9.1, Python 3.11, Linux, 2026-11-28.
# Source: aiomultiprocess/pool.py, `results`, and types.py, `ProxyException`.
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check aiomultiprocess==0.9.1
cd "$work"
cat > program.py <<'PROGRAM'
import asyncio
from importlib.metadata import version

from aiomultiprocess import Pool
from aiomultiprocess.types import ProxyException


async def work():
    raise KeyError("k")


async def main():
    async with Pool(1) as pool:
        try:
            await pool.apply(work)
        except Exception as error:
            return error


if __name__ == "__main__":
    print("aiomultiprocess", version("aiomultiprocess"))
    error = asyncio.run(main())
    print("class:", type(error).__name__)
    print("a KeyError:", isinstance(error, KeyError))
    print("last line of its text:", str(error).strip().splitlines()[-1])
    assert type(error) is ProxyException
    assert error.__cause__ is None
    assert "KeyError" in str(error)
PROGRAM
"$work/venv/bin/python" program.py
