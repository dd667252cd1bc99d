"""Mistyped names in programs: each error suggests the intended name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import phalanx
from phalanx import util
from phalanx.api.session import init
from phalanx.model.options import check_method_options
from phalanx.runtime.os.declared_topology import read_topology
from phalanx.scheduler.placement.placement_policy import read_placement_policy
from phalanx.util.placement_group import validate_placement_group

MISTYPED: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: init(num_cpu=2), RuntimeError, "num_cpus"),
    (lambda: init(adress="auto"), RuntimeError, "address"),
    (lambda: phalanx.gett, AttributeError, "get"),  # type: ignore[attr-defined]
    (lambda: phalanx.remot, AttributeError, "remote"),  # type: ignore[attr-defined]
    (lambda: util.ActorPol, AttributeError, "ActorPool"),
    (lambda: phalanx.remote(num_cpu=2)(type("A", (), {})), ValueError, "num_cpus"),
    (lambda: check_method_options({"num_return": 2}), TypeError, "num_returns"),
    (lambda: validate_placement_group([{"CPU": 1}], "PCK"), ValueError, "PACK"),
    (lambda: read_topology("dgx_h10"), ValueError, "dgx_h100"),
    (lambda: read_placement_policy("selectr"), ValueError, "selector"),
]


@pytest.mark.parametrize(("mistake", "kind", "meant"), MISTYPED, ids=[m for _, _, m in MISTYPED])
def test_a_mistyped_name_suggests_the_one_that_was_meant(
    mistake: Callable[[], Any], kind: type[Exception], meant: str
) -> None:
    with pytest.raises(kind, match=f"; did you mean '{meant}'\\?"):
        mistake()


@pytest.mark.parametrize("module", [phalanx, util])
def test_names_that_only_python_asks_for_are_refused_without_a_search(module: Any) -> None:
    with pytest.raises(AttributeError, match=r"has no attribute '__wrapped__'$"):
        _ = module.__wrapped__
    with pytest.raises(AttributeError, match=r"has no attribute 'xyzzy'$"):
        _ = module.xyzzy
