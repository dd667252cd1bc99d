"""A sweep by Hydra whose jobs are tasks.

pip install 'phalanx[hydra]'
python examples/integrations/hydra_app.py --multirun hydra/launcher=phalanx rate=0.1,0.2,0.3
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

try:
    import hydra
    from hydra.core.config_store import ConfigStore
except ModuleNotFoundError as error:
    raise SystemExit(f"This example needs {error.name}: pip install 'phalanx[hydra]'") from None

log = logging.getLogger(__name__)


@dataclass
class Search:
    """The parameters of one try."""

    rate: float = 0.1
    steps: int = 20


ConfigStore.instance().store(name="search", node=Search)


@hydra.main(version_base="1.3", config_name="search")
def descend(chosen: Search) -> float:
    """Minimize x squared by gradient descent from 1, and return the value that was reached."""
    x = 1.0
    for _ in range(chosen.steps):
        x -= chosen.rate * 2 * x
    log.info("rate %s leads to %.2e", chosen.rate, x * x)
    return x * x


if __name__ == "__main__":
    descend()
