"""An actor of Phalanx or of Ray."""

from __future__ import annotations

from phalanx_benchmarks.row import Api, start


class Engine:
    """An actor in a session of Phalanx or of Ray."""

    def __init__(self, api: Api) -> None:
        class Actor:
            def small_value(self) -> bytes:
                return b"ok"

        self._api = api
        start(api)
        self._actor = api.remote(num_cpus=0)(Actor).remote()

    def one_by_one(self, count: int) -> int:
        """Call the method `count` times, each time after the last result. Returns the number of
        results.
        """
        for _ in range(count):
            self._api.get(self._actor.small_value.remote())
        return count

    def together(self, count: int) -> int:
        """Call the method `count` times, and then wait for all results. Returns their number."""
        return len(self._api.get([self._actor.small_value.remote() for _ in range(count)]))

    def close(self) -> None:
        """End the session."""
        self._api.shutdown()
