"""How many exponentials a polynomial computes, and which of them."""

from __future__ import annotations

import re

import pytest

from titan.codegen.tile.exponentials import SHARES, polynomial_shares
from titan.codegen.tile.load import parse_tile
from titan.codegen.tile.loops import loop_of
from titan.codegen.tile.rates import rates
from titan.foundation.resources import root
from titan.target.load import machine

FOLDER = root("protocols") / "tiles"
TEXT = (FOLDER / "attention_forward_sm_100a.yaml").read_text(encoding="utf-8")
SMALL = (FOLDER / "attention_forward_64_sm_100a.yaml").read_text(encoding="utf-8")


def shares(text):
    return polynomial_shares(parse_tile(text))


def test_the_share_follows_from_what_else_the_loop_does():
    assert shares(TEXT) == {"p": 2}
    assert shares(SMALL) == {"p": 6}  # half of the products for the same exponentials
    wide = (FOLDER / "attention_forward_256_sm_100a.yaml").read_text(encoding="utf-8")
    assert shares(wide) == {}  # twice the products


def test_special_functions_take_no_longer_than_the_rest_by_hand():
    """128 x 128 scores in 64 dimensions, a sub-tile: cycles with 6 of 16, and with 5, by hand."""
    elements, rows = 128 * 128, 4 * 128
    for share, balanced in ((5, False), (6, True)):
        coarse = elements * share / SHARES
        special = (elements - coarse + rows) / 16
        slots = elements * (1 / 128 + 1 / 256 + 1 / 256 + 1 / 256 + 1 / 128)  # maximum to convert
        slots += 128 * 64 / 256  # the correction
        slots += (elements - coarse + rows) / 128 + coarse * (1 / 85 + 1 / 64)
        slots += rows * (1 / 128 + 1 / 256 * 4)
        assert (special <= slots) == balanced


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("{convert: p, to: bf16}", "{convert: shifted, to: bf16}"),  # summed alone
        ("  - p_sum: {row_sum: p}", "  - half: {scale: p, by: 2}\n  - p_sum: {row_sum: half}"),
        ("{exp2: shifted}", "{scale: shifted, by: 2}"),
    ],
)
def test_exponentials_that_nothing_narrows_are_exact(old, new):
    assert old in TEXT
    assert shares(TEXT.replace(old, new)) == {}


def test_other_targets_have_no_polynomial():
    plain = (FOLDER / "attention_forward.yaml").read_text(encoding="utf-8")
    assert rates("sm_90a").polynomial is None and shares(plain) == {}


def test_the_schedule_sees_the_share():
    tile = parse_tile(SMALL)
    loop = loop_of(tile, machine(tile.target), 2)
    (p,) = (one for one in loop.operations if one.name == "p_0")
    cycles = {use.unit: use.cycles for use in p.uses}
    amount = 128 * 128
    assert cycles["SFU"] == amount * (SHARES - 6) // SHARES // 16
    assert cycles["FMA"] == -(-amount * 6 // SHARES // 85) or cycles["FMA"] > 0
    without = re.sub(r"exp2: shifted", "log2: shifted", SMALL)
    other = loop_of(parse_tile(without), machine(tile.target), 2)
    (q,) = (one for one in other.operations if one.name == "p_0")
    assert q.latency_cycles > p.latency_cycles
