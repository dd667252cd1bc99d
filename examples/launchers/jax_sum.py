"""JAX's processes as members of a gang: a sum over all of them.

pip install jax
phalanx run --gang 2 -- python examples/launchers/jax_sum.py
"""

from __future__ import annotations

try:
    import jax
    import jax.numpy as jnp
    from jax.experimental import multihost_utils

    import phalanx.adapters.jax  # noqa: F401  (it registers itself)
except ModuleNotFoundError as error:
    raise SystemExit(f"This example needs {error.name}: pip install jax") from None


jax.distributed.initialize()
own = jnp.array([jax.process_index() + 1.0])
everyones = multihost_utils.process_allgather(own)
print(f"process {jax.process_index()} of {jax.process_count()}: the sum is {everyones.sum():.0f}")
