"""Dask's own scheduler and two workers, as a gang.

pip install 'phalanx[dask]'
python examples/integrations/dask_cluster.py [address of a cluster]
"""

from __future__ import annotations

import random
import sys
from collections import Counter

try:
    from distributed import Client

    import phalanx
    from phalanx.adapters.dask import Cluster
except ModuleNotFoundError as error:
    raise SystemExit(f"This example needs {error.name}: pip install 'phalanx[dask]'") from None


def roll(seed: int) -> int:
    """Roll a die; the same seed gives the same number."""
    return random.Random(seed).randint(1, 6)


def main() -> None:
    """Count a thousand rolls."""
    amounts = {"num_cpus": 3} if sys.argv[1:2] in ([], ["local"]) else {}
    phalanx.init(*sys.argv[1:2], **amounts)
    with Cluster(n_workers=2) as cluster, Client(cluster) as client:
        print(f"its page: {cluster.dashboard_link}")
        counts = dict(sorted(Counter(client.gather(client.map(roll, range(1000)))).items()))
    print(f"{sum(counts.values())} rolls: {counts}")


if __name__ == "__main__":
    main()
