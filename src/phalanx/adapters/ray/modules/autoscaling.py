"""`ray.autoscaler.sdk`: programs may request nodes, but nothing here adds any."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def request_resources(
    num_cpus: int | None = None,
    bundles: Sequence[Mapping[str, float]] | None = None,
    bundle_label_selectors: Sequence[Mapping[str, str]] | None = None,
) -> None:
    """Check the request and ignore it, like a Ray cluster without an autoscaler.

    Raises TypeError and ValueError for requests that Ray refuses.
    """
    if num_cpus is not None and not isinstance(num_cpus, int):
        raise TypeError(f"num_cpus must be a whole number of CPUs or None, not {num_cpus!r}")
    if bundles is not None:
        if not isinstance(bundles, list):
            raise TypeError(
                f"bundles must be a list of dicts such as {{'CPU': 1}}, not {bundles!r}"
            )
        for bundle in bundles:
            _check(bundle)
    if bundle_label_selectors is not None:
        given = 0 if bundles is None else len(bundles)
        if bundles is None or len(bundle_label_selectors) != given:
            raise ValueError(
                f"bundle_label_selectors must have one dict for each of the {given} bundles, not "
                f"{len(bundle_label_selectors)}"
            )


def _check(bundle: object) -> None:
    if not isinstance(bundle, dict):
        raise TypeError(f"a bundle must be a dict such as {{'CPU': 1}}, not {bundle!r}")
    for name, amount in bundle.items():
        if not isinstance(name, str):
            raise TypeError(f"the name of a bundle's resource must be a str, not {name!r}")
        if isinstance(amount, bool) or not isinstance(amount, int | float):
            raise TypeError(f"a bundle's amount of {name} must be a number, not {amount!r}")
