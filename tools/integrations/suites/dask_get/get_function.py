"""Dask's own tests of functions that compute graphs, run on Phalanx's `get`."""

from __future__ import annotations

from dask.utils_test import GetFunctionTestMixin

from phalanx.adapters.dask import get


class TestGet(GetFunctionTestMixin):  # type: ignore[misc]  # untyped
    get = staticmethod(get)
