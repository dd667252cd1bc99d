"""`ray.experimental.tqdm_ray`: progress bars of workers. The driver shows them as lines."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar

T = TypeVar("T")

_PERIOD_S = 1.0
_WIDTH = 20


class tqdm(Generic[T]):  # the name that programs import
    """A progress bar. It counts items, and prints the progress about once a second and at
    the end.
    """

    def __init__(
        self,
        iterable: Iterable[T] | None = None,
        desc: str | None = None,
        total: int | None = None,
        unit: str = "it",
        *,
        position: int | None = None,
        flush_interval_s: float = _PERIOD_S,
        **_: Any,
    ) -> None:
        if total is None and hasattr(iterable, "__len__"):
            total = len(iterable)  # type: ignore[arg-type]  # it has a length
        self._iterable = iterable if iterable is not None else ()
        self._desc = desc or ""
        self.total = total
        self._unit = unit
        self._period_s = flush_interval_s
        self.n = 0
        self._shown: int | None = None
        self._shown_at = 0.0

    def set_description(self, desc: str) -> None:
        """Set the label of the bar."""
        self._desc = desc

    def update(self, n: int = 1) -> None:
        """Count `n` more items as done."""
        self.n += n
        self.refresh(time.monotonic() - self._shown_at >= self._period_s or self.n == self.total)

    def refresh(self, is_due: bool = True) -> None:
        """Print the progress, if it has changed."""
        if not is_due or self._shown == self.n:
            return
        self._shown, self._shown_at = self.n, time.monotonic()
        total = "?" if self.total is None else str(self.total)
        filled = 0 if not self.total else min(_WIDTH, _WIDTH * self.n // self.total)
        bar = f"|{'#' * filled}{' ' * (_WIDTH - filled)}| " if self.total else ""
        prefix = f"{self._desc}: " if self._desc else ""
        print(f"{prefix}{bar}{self.n}/{total} {self._unit}", file=sys.stderr, flush=True)

    def close(self) -> None:
        """Print the last state."""
        self.refresh()

    def __iter__(self) -> Iterator[T]:
        for item in self._iterable:
            yield item
            self.update()
        self.close()

    def __enter__(self) -> tqdm[T]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def safe_print(*args: Any, **kwargs: Any) -> None:
    """Print like `print`. The output cannot damage a progress bar, because each state of a bar is a
    line of its own.
    """
    print(*args, **kwargs)
