"""Kernels as `titan build` writes them: the numbers of the tile program, under every interleaving.

The mutation score at the end: one change of the emitted text each, seen by the emulation or listed
with the reason why no run can show it.
"""

from __future__ import annotations

import re

import pytest

from tests.sampling import WHOLE, sampled
from tests.validate.emulate.emitted import emitted, mutants
from tests.validate.emulate.test_gemm import SCHEDULES
from titan.codegen.tile.load import targets_of
from titan.foundation.resources import root
from titan.validate.emulate.compare import compare
from titan.validate.emulate.run import EmulationError, KernelFault

QUICK = {
    "gemm": [(1, 8, 8), (130, 200, 72), (128, 128, 384), (3, 104, 304)],
    "gemm_small_tiles": [(1, 8, 8), (70, 136, 200)],
    "attention_forward_causal": [(1, 1, 1), (2, 200, 72), (1, 128, 384), (2, 100, 300)],
    "copy": [(1, 8), (130, 200)],
}
PROCESSORS = (1, 2, 3)


def sized(manifest, numbers):
    """The numbers for the parameters in order, rounded up where a constraint asks for multiples."""
    values = dict(zip((p["name"] for p in manifest["parameters"]), numbers, strict=False))
    for constraint in manifest["constraints"]:
        found = re.fullmatch(r"(\w+) % (\d+) == 0", constraint)
        if found:
            name, unit = found.group(1), int(found.group(2))
            values[name] = -(-values[name] // unit) * unit
    return values


def check(name, numbers, schedules, processors=2):
    tile, made = emitted(name)
    for seed, (policy, delay) in enumerate(schedules):
        found = compare(
            tile, made.files, made.manifest, sized(made.manifest, numbers),
            seed=seed, policy=policy, delay=delay, processors=processors,
        )  # fmt: skip
        assert found.same, (name, numbers, policy, delay, found.describe())


@pytest.mark.parametrize(
    "name,numbers", sampled([(n, size) for n in QUICK for size in reversed(QUICK[n])], every=2)
)
def test_computes_what_the_tile_program_means(name, numbers):
    check(name, numbers, SCHEDULES)


@pytest.mark.heavy
def test_a_persistent_kernel_on_few_and_many_processors():
    for processors in PROCESSORS:
        check("gemm_persistent", (300, 264, 136), SCHEDULES[:3], processors)


def library() -> list[str]:
    folder = root("protocols") / "tiles"
    return sorted(path.stem for path in folder.glob("*.yaml") if "sm_90a" in targets_of(path))


@pytest.mark.heavy
@pytest.mark.parametrize("name", library())
def test_the_whole_library(name):
    for numbers in ([1] * 4, [2, 200, 72, 130], [2, 128, 384, 128], [130, 200, 72], [3, 100, 300]):
        check(name, [*numbers, 1, 1, 1], SCHEDULES)


# What no run can show, with the reason.
HARMLESS = {
    r"no registers_increase": "fewer registers than allowed compute the same",
    r"no warp_sync": "the election behind it gathers the same lanes; no ordinary access is before",
    r"no barrier_arrive: .*(x_tiles - 1|ring_q)": "the last release: nobody waits for it",
    r"(count \+ 1|no barrier_wait): .*b_ring_q_empty": "filled once: the wait is for a fresh stage",
    r"wgmma_wait<0>\(\);  // finalize": "nothing is in flight any more",
}


def judged(tile, made, text, size, schedules):
    """What showed that the text is wrong, or None."""
    for seed, (policy, delay) in enumerate(schedules):
        try:
            found = compare(
                tile, {"kernel.cu": text}, made.manifest, size,
                seed=seed, policy=policy, delay=delay, processor_seconds=60,
            )  # fmt: skip
        except KernelFault as fault:
            return str(fault)
        except EmulationError as error:
            return f"does not compile: {error}"
        if not found.same:
            return found.describe()
    return None


def survivors(name, numbers, schedules):
    tile, made = emitted(name)
    size = sized(made.manifest, numbers)
    planted = list(mutants(made.files["kernel.cu"]))
    alive, count = [], len(planted)
    for told, text in planted[:: 1 if WHOLE else 8]:
        if judged(tile, made, text, size, schedules) is None:
            alive.append(told)
    return alive, count


@pytest.mark.parametrize(
    "name,numbers,at_least",
    [
        ("gemm", (136, 128, 456), 45),
        pytest.param(
            "attention_forward", (2, 136, 700), 60, marks=pytest.mark.heavy
        ),
        pytest.param("gemm_persistent", (300, 136, 200), 50, marks=pytest.mark.heavy),
    ],
)  # fmt: skip
def test_one_change_of_the_text_is_seen(name, numbers, at_least):
    alive, count = survivors(
        name, numbers, SCHEDULES + 6 * [("latest", "lazy"), ("uneven", "mixed")]
    )
    assert count >= at_least, "the changes are made"
    unexplained = [told for told in alive if not any(re.search(why, told) for why in HARMLESS)]
    assert unexplained == []
