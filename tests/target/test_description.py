"""Capabilities of targets: derived from the data of `backends/`, which must agree with itself."""

from __future__ import annotations

import pytest

from titan.foundation.resources import root
from titan.target.completion import Vendor
from titan.target.description import GENERATED, generated_targets, target_of
from titan.target.limits import known_targets
from titan.target.load import machine


@pytest.mark.parametrize("name", GENERATED)
def test_a_target_with_code_generation_has_all_its_data(name):
    folder = root("backends") / name
    for file in ("completion.yaml", "legality.yaml", "machine.yaml", "rates.yaml"):
        assert (folder / file).is_file(), file
    target = target_of(name)
    assert target.generated
    assert target.nvidia != target.amd
    assert target.shared_bytes > 0


@pytest.mark.parametrize("name", GENERATED)
def test_the_machine_and_the_limits_agree(name):
    target = target_of(name)
    assert machine(name).memories["shared"].capacity == target.shared_bytes
    assert machine(name).threads_per_warp == target.threads_per_warp


def test_generated_targets_by_vendor():
    by_vendor = [generated_targets(vendor) for vendor in Vendor]
    assert sorted(name for names in by_vendor for name in names) == sorted(GENERATED)
    assert generated_targets(Vendor.AMD) == ("gfx942", "gfx950")


def test_how_matrix_products_are_waited_for():
    commits = {name for name in GENERATED if target_of(name).matrix_commits_to_barriers}
    assert commits == {"sm_100a"}


def test_copies_to_lds_are_of_whole_words_the_widest_first():
    widths = {name: target_of(name).lds_copy_bytes for name in known_targets()}
    assert widths["gfx942"] == (4,)
    assert widths["gfx950"] == (16, 4)  # 12 divides no row of a power of two
    assert widths["sm_90a"] == ()


def test_an_unknown_target_has_no_capability():
    target = target_of("sm_12345")
    assert not (target.generated or target.nvidia or target.amd or target.shared_bytes)
