"""`tail: poison`: the last iteration is handed over as poison, and computed on a safe path.

Verified for any number of iterations, right in numbers below, at and beyond the depth, compared
with PTX and machine code; a consumer that reads the poisoned stage is refuted, and an emission that
forgets the safe path is refused.
"""

from __future__ import annotations

import shutil
from functools import cache

import pytest

from tests.device.compared import compare
from titan.cli.main import run
from titan.codegen.emit.model import EmissionRefused
from titan.codegen.emit.write import emit
from titan.codegen.pipeline.build import BuildLimits, NotVerified, build
from titan.codegen.pipeline.build import decoded as decoded_pipeline
from titan.codegen.pipeline.build import judged as judged_pipeline
from titan.codegen.pipeline.candidates import shapes
from titan.codegen.pipeline.forms import form_of
from titan.codegen.pipeline.model import FormRefused
from titan.codegen.tile.load import parse_tile
from titan.foundation.resources import root
from titan.foundation.verdict import Verdict
from titan.package.produce import produce
from titan.sync import program as ir

TILES = root("protocols") / "tiles"
LIMITS = BuildLimits(2.0, solver="rau")
SMALL_SM_100A = ("rows: 128, columns: 256", "rows: 128, columns: 64")
GEMMS = [
    ("gemm_small_tiles", "sm_90a"),
    ("gemm_sm_100a", "sm_100a"),
    ("gemm_small_tiles_gfx942", "gfx942"),
    ("gemm_small_tiles_gfx942", "gfx950"),
]
COMPILERS = {"sm_90a": "nvcc", "sm_100a": "nvcc", "gfx942": "clang-22", "gfx950": "clang-22"}


def poisoned_text(name):
    text = (TILES / f"{name}.yaml").read_text(encoding="utf-8")
    return text.replace(*SMALL_SM_100A) + "tail: poison\n"


@cache
def built(name, target):
    text = poisoned_text(name)
    return build(parse_tile(text, target=target), text, LIMITS)


@pytest.mark.parametrize(("name", "target"), GEMMS)
def test_it_is_verified_for_any_number_of_iterations(name, target):
    made = built(name, target)
    assert made.shape.poison and made.finding.verdict is Verdict.VERIFIED
    assert dict(made.finding.coverage.parameters)["tiles"] is None
    copies = [
        operation
        for role in made.program.roles
        for operation in ir.walk(role.body)
        if isinstance(operation, ir.Asynchronous) and any(e.write for e in operation.effects)
    ]
    assert copies
    if target.startswith("sm_"):  # without data handed over, and asked for by who waits
        assert "poison: t + 1 == tiles" in made.pipeline_text
        assert "when poisoned: ring_a[t]" in made.pipeline_text


@pytest.mark.parametrize(
    ("name", "target"),
    [pytest.param(*one, marks=pytest.mark.heavy if "gfx950" in one else []) for one in GEMMS],
)
def test_the_numbers_are_right_below_at_and_beyond_the_depth(name, target):
    made = built(name, target)
    emitted = emit(made.tile, made.kernel, made.program)
    depth = made.shape.depth
    for seed, k in enumerate((8, 64 * depth, 64 * 2 * depth + 24)):
        sizes = {"M": 72, "N": 40, "K": k}
        found = compare(made.tile, emitted.files, emitted.manifest, sizes, seed=seed)
        assert found.same, (sizes, found)


@pytest.mark.parametrize(
    ("name", "target"),
    [pytest.param(*one, marks=[] if "gfx942" in one else pytest.mark.heavy) for one in GEMMS],
)
def test_what_compilers_make_of_it_is_compared_and_spills_nothing(name, target, tmp_path):
    if shutil.which(COMPILERS[target]) is None:
        pytest.skip(f"{COMPILERS[target]} is not installed")
    text = poisoned_text(name)
    tile = parse_tile(text, target=target)
    made = produce(tile, text, tmp_path, LIMITS, with_toolchain=True)
    assert "poison" in made.built.shape.name
    assert made.compared.startswith(("PTX", "machine code"))
    assert made.figures is not None and not made.figures.spill_bytes


# What a consumer, or the role that issues, does instead.
UNSAFE = {
    ("sm_90a", "reads without asking"): (
        """        - when poisoned: ring_a[t]
          then:
            - drain: acc_next
            - compute: acc_next
              tile: t
          else:
            - issue: mma(a[t], b[t])
              as: acc_next
""",
        """        - issue: mma(a[t], b[t])
          as: acc_next
""",
    ),
    ("sm_90a", "asks for the tile before"): (
        "when poisoned: ring_a[t]", "when poisoned: ring_a[t - 1]",
    ),
    ("sm_90a", "poisons two"): ("poison: t + 1 == tiles", "poison: t + 2 >= tiles"),
    ("sm_100a", "the issuing thread reads without asking"): (
        "poison: t + 1 == tiles", "poison: t + 2 == tiles",
    ),
    ("gfx942", "all iterations are read"): ("- for: t in 0..tiles - 1", "- for: t in 0..tiles"),
}  # fmt: skip


@pytest.mark.parametrize("case", sorted(UNSAFE), ids="-".join)
def test_unsafe_variants_are_refuted(case):
    target, _ = case
    name = next(name for name, of in GEMMS if of == target)
    made = built(name, target)
    old, new = UNSAFE[case]
    if case[1] == "poisons two":  # asked for by the rule of one: the consumer's own condition
        text = made.pipeline_text.replace("when poisoned: ring_a[t]", "if: t + 1 == tiles")
        judged_pipeline(decoded_pipeline(text)[0], LIMITS)
        text = text.replace(old, new)
    else:
        text = made.pipeline_text.replace(old, new)
        if target == "sm_100a":
            text = text.replace("when poisoned: ring_a[t]", "if: t + 1 == tiles")
    assert text != made.pipeline_text
    with pytest.raises(NotVerified):
        kernel, _ = decoded_pipeline(text)
        judged_pipeline(kernel, LIMITS)


@pytest.mark.parametrize(
    ("name", "target", "safe"),
    [
        ("gemm_small_tiles", "sm_90a", 12 * " " + "- compute: acc_next\n" + 14 * " " + "tile: t\n"),
        ("gemm_sm_100a", "sm_100a", "    - compute: acc_next\n      tile: tiles - 1\n"),
    ],
)
def test_a_kernel_that_leaves_out_the_safe_path_is_not_emitted(name, target, safe):
    """The protocol holds without it; the tile program does not."""
    made = built(name, target)
    assert safe in made.pipeline_text
    kernel, program = decoded_pipeline(made.pipeline_text.replace(safe, ""))
    assert judged_pipeline(kernel, LIMITS).verdict is Verdict.VERIFIED
    with pytest.raises(EmissionRefused):
        emit(made.tile, kernel, program)


REFUSED = {
    ("attention_forward_64", "sm_90a"): "adds to a sum: of a poisoned iteration nothing else",
    ("attention_forward_64_sm_100a", "sm_100a"): "adds to a sum: of a poisoned iteration",
    ("gemm_persistent", "sm_90a"): "counts the iterations of all work items",
    ("gemm_cluster2", "sm_90a"): "CTAs of a cluster share tiles",
    ("softmax_rows_gfx942", "gfx942"): "adds to a sum: of a poisoned iteration nothing else",
}


@pytest.mark.parametrize(("name", "target"), sorted(REFUSED))
def test_what_has_no_safe_path_is_refused_with_the_reason(name, target):
    tile = parse_tile(poisoned_text(name), target=target)
    starts = {operation.name: number for number, operation in enumerate(tile.body)}
    listed = list(shapes(tile, 2, 2))
    assert listed and all(shape.poison for shape in listed)
    for shape in listed:
        with pytest.raises(FormRefused, match=REFUSED[name, target]):
            form_of(target)(tile, shape, starts, 100)


def test_the_command_asks_for_it_and_the_package_says_so(tmp_path, capsys):
    path = TILES / "gemm_small_tiles.yaml"
    options = ["--tail", "poison", "--solver", "rau", "--no-compile", "--no-cache"]
    assert run(["build", str(path), "-o", str(tmp_path), *options]) == 0
    assert "depth 4, poison, order of the schedule" in capsys.readouterr().out
    folder = tmp_path / "gemm_small_tiles-sm_90a"
    assert (folder / "tile.yaml").read_text(encoding="utf-8").endswith("\ntail: poison\n")
    assert run(["gate", str(folder), "--fresh"]) == 0
