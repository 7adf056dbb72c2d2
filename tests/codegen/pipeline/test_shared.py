"""Fragments that groups share: each step between writing and multiplying is needed, and the
verifier, the run with numbers and emission each see it missing."""

from __future__ import annotations

import numpy as np
import pytest

from tests.codegen.pipeline import examples
from tests.codegen.pipeline.test_hopper import verdict
from tests.codegen.pipeline.written import hopper as construct
from titan.codegen.emit.model import EmissionRefused
from titan.codegen.emit.write import emit
from titan.codegen.pipeline.build import decoded
from titan.codegen.pipeline.model import FormRefused, Shape
from titan.codegen.tile.functional import Interleaving, check, interleavings
from titan.foundation.verdict import Verdict
from titan.language.kernel.decode import decode_text
from titan.language.kernel.model import Kernel
from titan.sync.program import SyncProgram
from titan.verify import lowering

PLAIN = Shape("", 2, overlapped=False)
WRITTEN = "        - store: whole[t % 2, self] = t\n"
FENCE = "        - fence: async\n"
MEETS = "        - sync: shared[0]\n"
ISSUED = "          reads: [whole[t % 2] = t]\n"
SIZES = {"M": 256, "N": 150}


def text() -> str:
    made = construct(examples.shared(), PLAIN, {}, 1)
    assert WRITTEN + FENCE + MEETS in made
    assert ISSUED in made
    return made


def lowered(made: str) -> tuple[Kernel, SyncProgram]:
    """As `decoded`, whatever the rules of the hardware say (TTN432: threads that do not meet)."""
    family, errors = decode_text(made, "pipeline.yaml", computations=True)
    assert family is not None, errors
    return family.kernels[0], lowering.sync_program(family.kernels[0]).program


def inputs() -> dict[str, np.ndarray]:
    random = np.random.default_rng(2)
    return {name: random.standard_normal((rows, 128)) for name, rows in (("A", 256), ("B", 150))}


def test_it_is_verified_and_computes_what_it_means() -> None:
    made = text()
    assert verdict(made).verdict is Verdict.VERIFIED
    _, program = decoded(made)
    assert check(examples.shared(), program, inputs(), SIZES, interleavings(8)) == []
    kernel, program = decoded(made)
    assert (
        "titan::tensor_add(&map_out" in emit(examples.shared(), kernel, program).files["kernel.cu"]
    )


ONE_STAGE = {"whole[t % 2": "whole[0", "whole: {stages: 2": "whole: {stages: 1"}
FAULTS = {
    "nobody meets": ({WRITTEN + FENCE + MEETS: WRITTEN + FENCE}, True),
    "no fence": ({WRITTEN + FENCE: WRITTEN}, False),
    "the fence behind the barrier": ({FENCE + MEETS: MEETS + FENCE}, False),
    "one stage": (ONE_STAGE, True),
    "the other stage": ({ISSUED: "          reads: [whole[(t + 1) % 2] = t]\n"}, True),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_refuted(name: str) -> None:
    edits, shows = FAULTS[name]
    made = text()
    for old, new in edits.items():
        assert old in made
        made = made.replace(old, new)
    assert verdict(made).verdict is Verdict.REFUTED
    _, program = lowered(made)
    if shows:  # numbers know no proxies
        runs = [
            one
            for torn in (False, True)
            for one in interleavings(24)
            for one in (Interleaving(one.seed, one.engines, torn, lenient=True),)
        ]
        assert check(examples.shared(), program, inputs(), SIZES, runs)


@pytest.mark.parametrize("name", ["nobody meets", "no fence", "the fence behind the barrier"])
def test_emission_sees_the_threads_of_one_group(name: str) -> None:
    made = text()
    for old, new in FAULTS[name][0].items():
        made = made.replace(old, new)
    kernel, program = lowered(made)
    with pytest.raises(EmissionRefused, match="without a fence and then a barrier"):
        emit(examples.shared(), kernel, program)


def test_groups_that_meet_take_no_turns() -> None:
    with pytest.raises(FormRefused, match="take turns"):
        construct(examples.shared(), Shape("", 2, overlapped=False, ping_pong=True), {}, 1)
