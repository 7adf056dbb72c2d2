"""Faults in the text of emitted kernels, one each, against all that looks at a kernel here.

A fault has to show in a run without a GPU (wrong numbers, a fault, a hang), be refuted by the
decision about all interleavings, or be found by the comparison of the PTX with the sync program,
which is what knows where fences of tcgen05 and the allocation of tensor memory belong.
"""

from __future__ import annotations

import re

import pytest

from tests.device.compared import SCHEDULES, needs_toolchain, shown
from tests.device.planted_text import ATTENTION_FAULTS, GEMM_FAULTS, mutants
from tests.sampling import WHOLE, sampled
from tests.validate.compare.kernels import SOURCE, Emission, emission

POLICIES = (*SCHEDULES, "checked")


def seen(made: Emission, text: str, sizes: dict[str, int], processors: int = 2) -> str:
    """What shows that the text is wrong, of the first thing that does."""
    files = {**made.files, SOURCE: text}
    for seed, policy in enumerate(POLICIES):
        found = shown(
            made.tile, files, made.manifest, sizes, seed=seed, policy=policy, processors=processors
        )
        if found:
            return f"{policy}: {found}"
    return "; ".join(made.faults(files))


def planted(name: str, faults: dict[str, tuple[str, str]], fault: str) -> tuple[Emission, str]:
    needs_toolchain("sm_100a")
    made = emission(name, "sm_100a")
    text, count = re.subn(*faults[fault], made.files[SOURCE])
    assert count >= 1, "the fault changes the text"
    return made, text


# The consumer has waited for all that was multiplied.
HARMLESS = ("the issuer ends before its multiplications",)


@pytest.mark.parametrize("fault", sampled(GEMM_FAULTS, every=len(GEMM_FAULTS)))
def test_a_fault_in_a_gemm_with_tensor_memory_is_seen(fault):
    made, text = planted("gemm_persistent_sm_100a", GEMM_FAULTS, fault)
    sizes = {"M": 300, "N": 264, "K": 400}  # one processor: both stages of the accumulator are used
    assert bool(seen(made, text, sizes, processors=1)) == (fault not in HARMLESS)


@pytest.mark.heavy
@pytest.mark.long
@pytest.mark.parametrize("fault", ATTENTION_FAULTS)
def test_a_fault_in_attention_with_tensor_memory_is_seen(fault):
    made, text = planted("attention_forward_causal_64_sm_100a", ATTENTION_FAULTS, fault)
    assert seen(made, text, {"heads": 1, "queries": 300, "keys": 600})


# What no run can show, with the reason.
ALIVE = {}
TEXTS = {
    "gemm": ({"M": 136, "N": 128, "K": 456}, 45),
    "attention_forward": ({"heads": 2, "queries": 136, "keys": 700}, 60),
    "gemm_persistent": ({"M": 300, "N": 232, "K": 200}, 50),
}


@pytest.mark.heavy
@pytest.mark.long
@pytest.mark.parametrize("name", TEXTS)
def test_one_change_of_the_text_is_seen(name):
    sizes, at_least = TEXTS[name]
    needs_toolchain("sm_90a")
    made = emission(name)
    found = list(mutants(made.files[SOURCE]))
    assert len(found) >= at_least, "the changes are made"
    tried = found[:: 1 if WHOLE else 8]
    alive = [what for what, text in tried if not seen(made, text, sizes)]
    assert [what for what in alive if not any(re.search(one, what) for one in ALIVE)] == []
