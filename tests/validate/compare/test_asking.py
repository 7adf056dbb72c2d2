"""Kernels that ask the hardware for work items beside their sync program; faults are told."""

from __future__ import annotations

import re

import pytest

from tests.sampling import sampled
from tests.validate.compare.kernels import HEADER, SOURCE, emission
from titan.codegen.tile import semantics
from titan.codegen.tile.load import load_tile
from titan.foundation.resources import root
from titan.validate.compare.compile import compile_package, nvcc
from titan.validate.compare.launches import trip_count
from titan.validate.compare.translation import translation

pytestmark = pytest.mark.skipif(nvcc() is None, reason="nvcc is not installed")
NAME = "gemm_launch_control_sm_100a"
TILES = root("protocols") / "tiles"


def test_what_is_emitted_does_what_its_program_says():
    made = emission(NAME, "sm_100a")
    assert {launch.cancelled for launch in made.launches} == {0, 1, 2}
    compiled = compile_package(made.files, "sm_100a")
    found = translation(made.tile, made.program, made.manifest, compiled)
    assert found.faults == [] and found.notes == []
    assert found.events > 2000 and found.launches == len(made.launches) >= 3


# what is wrong: (file, pattern, replacement)
FAULTS = {
    "nobody asks": (SOURCE, r"titan::ask_next[^;]*;", ""),
    "asked twice": (SOURCE, r"(titan::ask_next[^;]*;)", r"\1 \1"),
    "the other slot": (
        SOURCE, r"ask_next\(s_answer \+ \(x_w % 2\)", "ask_next(s_answer + ((x_w + 1) % 2)"),
    "another barrier": (SOURCE, r"(ask_next.*), b_answer_there", r"\1, b_answer_read_issuer"),
    "read from the other slot": (
        SOURCE, r"next_item\(s_answer \+ \(x_w % 2\)", "next_item(s_answer + ((x_w + 1) % 2)"),
    "an answer that is not taken up": (SOURCE, r"\+\+x_work", "x_work += 0"),
    "an item more": (SOURCE, r"\+\+x_work", "x_work += 2"),
    "no wait for the answer": (SOURCE, r"titan::barrier_wait\(b_answer_there[^;]*;", ""),
    "no wait for who reads": (SOURCE, r"titan::barrier_wait\(b_answer_read_consumer[^;]*;", ""),
    "no fence behind the read": (
        SOURCE, r"(\+\+x_work;)\s*titan::fence_proxy_async\(\);", r"\1"),
    "the slot given back before it is read": (
        SOURCE,
        r"(if \(titan::next_item[^;]*;)((?s:.*?)barrier_arrive\(b_answer_read_issuer[^;]*;)",
        r"\2 \1"),
    "fewer bytes": (SOURCE, r"(b_answer_there[^;]*), 16\)", r"\1, 8)"),
    "header: the answer is not looked at": (HEADER, r"selp\.b32 %0, 1, 0, p", "mov.b32 %0, 0"),
}  # fmt: skip


@pytest.mark.parametrize("name", sampled(FAULTS, every=5))
def test_a_planted_fault_is_told(name):
    file, pattern, replacement = FAULTS[name]
    made = emission(NAME, "sm_100a")
    text, count = re.subn(pattern, replacement, made.files[file])
    assert count >= 1, "the fault changes the text"
    assert made.faults({**made.files, file: text}) != []


def test_items_that_descend_have_their_trips():
    tile = load_tile(TILES / "attention_forward_causal_persistent_sm_100a.yaml")
    sizes = {"heads": 2, "queries": 700, "keys": 700}
    counts = [trip_count(tile, sizes, item, {}) for item in range(6)]
    assert counts == semantics.trips_of_items(tile, {**dict(tile.sizes), **sizes})
    assert counts == [6, 6, 4, 4, 2, 2]


@pytest.mark.heavy
@pytest.mark.long
def test_coordinates_that_ascend_where_they_should_not_are_seen():
    made = emission("attention_forward_causal_persistent_sm_100a", "sm_100a")
    assert made.faults(made.files) == []
    text, count = re.subn(r"(w_i = )\(.*\) - 1 - titan_item", r"\1titan_item", made.files[SOURCE])
    assert count >= 4
    assert made.faults({**made.files, SOURCE: text}) != []
