"""Large arguments are in shared memory, to which their sender must not write again."""

from __future__ import annotations

import numpy as np

import phalanx


def test_an_actor_may_keep_a_large_argument(runtime, get):
    @phalanx.remote
    class Keeper:
        def keep(self, array):
            self.array = array

        def is_whole(self):
            return bool((self.array == 7).all())

    keeper = Keeper.remote()
    get(keeper.keep.remote(np.full(200_000, 7)))
    for other in range(5):
        runtime.put(np.full(200_000, other))  # would be written into the same file, were it reused
        assert get(keeper.is_whole.remote())
