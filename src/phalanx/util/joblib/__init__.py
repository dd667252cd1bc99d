"""joblib on Phalanx: `register_phalanx()`, then `joblib.parallel_config(backend="phalanx")`."""

from __future__ import annotations


def register_phalanx() -> None:
    """Register the backend "phalanx" with joblib. Raises ImportError when joblib is not installed.

    Example:
        register_phalanx()
        with joblib.parallel_config(backend="phalanx"):
            roots = joblib.Parallel()(joblib.delayed(math.sqrt)(n) for n in range(100))
    """
    _register("phalanx")


def register_ray() -> None:
    """Register the same backend under the name "ray", for programs written for Ray."""
    _register("ray")


def _register(name: str) -> None:
    try:
        from joblib.parallel import register_parallel_backend
    except ImportError as missing:
        raise ImportError(
            f"the joblib backend {name!r} needs joblib: install it with `pip install joblib`"
        ) from missing
    from phalanx.util.joblib.backend import PhalanxBackend

    register_parallel_backend(name, PhalanxBackend)


__all__ = ["register_phalanx", "register_ray"]
