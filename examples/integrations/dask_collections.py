"""A bag of Dask whose pieces are tasks, and stay in the object store until they are requested.

pip install 'phalanx[dask]'
python examples/integrations/dask_collections.py [address of a cluster]
"""

from __future__ import annotations

import random
import sys

try:
    import dask.bag

    import phalanx
    from phalanx.adapters.dask import enable
except ModuleNotFoundError as error:
    raise SystemExit(f"This example needs {error.name}: pip install 'phalanx[dask]'") from None


def roll(seed: int) -> int:
    """Roll a die; the same seed gives the same number."""
    return random.Random(seed).randint(1, 6)


def main() -> None:
    """Count a thousand rolls."""
    phalanx.init(*sys.argv[1:2])
    with enable():
        rolls = dask.bag.from_sequence(range(1000), npartitions=8).map(roll)
        counts = dict(sorted(rolls.frequencies().compute()))
    print(f"{sum(counts.values())} rolls: {counts}")


if __name__ == "__main__":
    main()
