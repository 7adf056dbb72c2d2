"""Work without the collector of cyclic garbage, which is as it was afterwards."""

from __future__ import annotations

import gc

import pytest

from titan.foundation.collector import uncollected


@uncollected
def collecting(fail: bool) -> bool:
    if fail:
        raise ValueError
    return gc.isenabled()


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_is_off_meanwhile_and_as_before_afterwards(enabled):
    before = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        assert collecting(False) is False
        assert gc.isenabled() is enabled
        with pytest.raises(ValueError):
            collecting(True)
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if before else gc.disable)()
