"""The checks of `phalanx start --standby`."""

from __future__ import annotations

import pytest

from phalanx.cli.configuration.values import check_standby

SERVER = "redis://10.0.0.9:6379/0"


def test_a_standby_with_a_store_in_a_server_is_allowed() -> None:
    check_standby(["10.0.0.2:6380"], [SERVER])
    check_standby([], [])


@pytest.mark.parametrize("store", [[], ["memory"], ["/tmp/head.db"], [SERVER, "/tmp/head.db"]])
def test_a_standby_needs_a_store_that_both_machines_reach(store: list[str]) -> None:
    with pytest.raises(ValueError, match="a standby needs a store that both machines reach"):
        check_standby(["10.0.0.2:6380"], store)


def test_a_standby_has_an_address() -> None:
    with pytest.raises(ValueError, match="HOST:PORT"):
        check_standby(["10.0.0.2"], [SERVER])
