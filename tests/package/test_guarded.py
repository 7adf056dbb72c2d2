"""Tensors that no tensor map describes: packages whose tiles threads copy."""

from __future__ import annotations

import re
import shutil
from itertools import product
from pathlib import Path
from random import Random

import pytest

from tests.codegen.pipeline.written import hopper as construct
from tests.device.compared import compare, launchable, shown
from tests.package.random_programs import program as drawn
from tests.package.random_programs import sizes as drawn_sizes
from tests.package.trials import Made, NotVerified, disagreement, faults
from tests.sampling import sampled
from tests.validate.compare.kernels import Emission
from titan.cli.main import run
from titan.codegen.emit.model import EmissionRefused
from titan.codegen.emit.write import emit
from titan.codegen.pipeline.build import BuildLimits, BuildRefused, decoded, judged
from titan.codegen.pipeline.candidates import shapes
from titan.codegen.pipeline.model import FormRefused, Shape
from titan.codegen.tile.alignment import unaligned as without_map
from titan.codegen.tile.load import parse_tile, targets_of
from titan.device.plan import Unlaunchable
from titan.engines.explore.reference import explore_reference
from titan.engines.explore.search import explore
from titan.engines.happens_before.engine import analyse
from titan.language.kernel.decode import decode_text
from titan.language.lower import lower
from titan.package.produce import produce
from titan.package.summary import as_text
from titan.sync import program as ir
from titan.sync.fault import FaultKind
from titan.target.load import TargetRefused
from titan.validate.compare.launches import launches

pytest.importorskip("numpy")
LIBRARY = Path(__file__).resolve().parents[2] / "protocols" / "tiles"
LIMITS = BuildLimits(schedule_seconds=2, verify_seconds=5)
TENSOR = re.compile(r"(\{shape: \[.*\], dtype: \w+(, output: true)?)\}")
# Nothing divides 16 bytes; below, at and beyond the depth of the rings.
SIZES = {
    ("K", "M", "N"): [
        {"M": 1, "N": 1, "K": 1},
        {"M": 130, "N": 77, "K": 129},
        {"M": 67, "N": 131, "K": 583},
    ],
    ("heads", "keys", "queries"): [
        {"heads": 2, "queries": 3, "keys": 5},
        {"heads": 1, "queries": 200, "keys": 333},
    ],
    ("M",): [{"M": 1}, {"M": 301}],
    ("M", "N"): [{"M": 1, "N": 3}, {"M": 130, "N": 333}],
}
needs_nvcc = pytest.mark.skipif(
    shutil.which("nvcc") is None or shutil.which("ptxas") is None, reason="no CUDA toolchain"
)


def unaligned(name: str, only: str = "") -> str:
    """The text of a tile program of the library whose tensors (or one) may begin anywhere."""
    made = []
    for line in (LIBRARY / f"{name}.yaml").read_text().splitlines():
        chosen = not only or line.strip().startswith(f"{only}:")
        made.append(TENSOR.sub(r"\1, aligned: false}", line) if chosen else line)
    text = "\n".join(made) + "\n"
    assert "aligned: false" in text
    return text


def built(text, folder, target="sm_90a", with_toolchain=False):
    tile = parse_tile(text, target=target)
    return tile, produce(tile, text, folder, LIMITS, with_toolchain=with_toolchain)


def test_what_was_taken_and_why_is_told(tmp_path):
    _, produced = built(unaligned("gemm"), tmp_path)
    told = as_text("gemm.yaml", produced)
    assert "guarded copies by threads, order of the schedule" in told
    assert "depth 4, bulk copies: rows of A may begin at any element" in told
    manifest = produced.emitted.manifest
    assert not [text for text in manifest["constraints"] if "%" in text]
    assert {item["kind"] for item in manifest["arguments"]} == {"pointer", "size"}


def test_a_fixed_row_that_is_no_multiple_of_16_bytes_needs_no_word(tmp_path):
    text = (LIBRARY / "gemm.yaml").read_text().replace("K: any", "K: 100")
    _, produced = built(text, tmp_path)
    assert "guarded" in produced.built.shape.name
    first = produced.built.steps[0]
    assert first.reason.startswith("a row of A has 200 bytes, not a multiple of 16")
    # The result has rows that a launch brings: its tensor map asks for whole units.
    assert "N % 8 == 0" in produced.emitted.manifest["constraints"]


def test_the_gate_builds_the_same_package(tmp_path):
    _, produced = built(unaligned("gemm_small_tiles"), tmp_path)
    assert run(["gate", str(produced.folder), "--fresh"]) == 0


def pipeline(depth=2):
    tile = parse_tile(unaligned("gemm"))
    shape = Shape("guarded", depth, overlapped=False, guarded=True)
    return construct(tile, shape, {}, 1)


def test_a_fence_stands_between_every_write_and_the_arrival():
    _, program = decoded(pipeline())
    producer = [type(op).__name__ for op in ir.walk(program.roles[0].body)]
    assert producer == ["Loop", "Wait", "Access", "Fence", "Access", "Fence", "Arrive"]


def test_all_engines_refute_the_pipeline_without_fences():
    family, _ = decode_text(pipeline(), "pipeline.yaml")
    bare = lower(family.kernels[0].protocol, add_fences=False)
    assert not [op for role in bare.roles for op in ir.walk(role.body) if isinstance(op, ir.Fence)]
    seen = explore_reference(bare, {"tiles": 2}), explore(bare, {"tiles": 2}), explore(bare)
    assert {found.trace.fault.kind for found in seen} == {FaultKind.MISSING_FENCE}
    assert analyse(bare, {"tiles": 2}).fault.kind is FaultKind.MISSING_FENCE


@pytest.mark.parametrize(
    ("name", "target", "reason"),
    [
        ("copy", "sm_90a", "`read` it first"),
        ("gemm_cluster2", "sm_90a", "CTAs of a cluster"),
        ("gemm_gfx942", "gfx942", "are copied at once"),
        pytest.param(
            "attention_forward_sm_100a",
            "sm_100a",
            "no tensor map describes it",
            marks=pytest.mark.heavy,
        ),
    ],
)
def test_what_has_no_such_form_says_so(name, target, reason, tmp_path):
    with pytest.raises(BuildRefused) as caught:
        built(unaligned(name), tmp_path, target)
    assert any(reason in step.reason for step in caught.value.steps)


# ------------------------------------------------------------------ what the kernels compute


def compared(text, folder, target="sm_90a", policies=("shuffled", "starved", "ahead")):
    tile, produced = built(text, folder, target)
    manifest = produced.emitted.manifest
    names = tuple(sorted(item["name"] for item in manifest["parameters"]))
    ragged = SIZES.get(names, [{name: 3 + 2 * i for i, name in enumerate(names)}])
    for seed, (sizes, policy) in enumerate(product(ragged, policies)):
        found = compare(tile, produced.folder, manifest, sizes, seed=seed, policy=policy)
        assert found.same, (sizes, policy, found.describe())
    return produced


def test_a_product_whose_rows_begin_anywhere(tmp_path):
    assert "guarded" in compared(unaligned("gemm"), tmp_path).built.shape.name


def test_bulk_copies_and_threads_in_one_role(tmp_path):
    """Rows of K begin anywhere: threads copy them, an engine those of Q and V."""
    text = unaligned("attention_forward_64", only="K")
    produced = compared(text, tmp_path, policies=("shuffled", "starved"))
    source = produced.emitted.files["kernel.cu"]
    assert source.count("titan::fill_tile<") == 1
    assert source.count("titan::tensor_load(") == 2


def test_a_launch_that_keeps_to_tensor_maps_is_still_refused_elsewhere(tmp_path):
    text = (LIBRARY / "gemm.yaml").read_text()
    tile, produced = built(text, tmp_path)
    manifest = produced.emitted.manifest
    with pytest.raises(Unlaunchable, match="K % 8"):
        compare(tile, produced.folder, manifest, {"M": 8, "N": 8, "K": 7})


# Programs of the library without the form, by what their names contain, and a reason that is given.
UNGUARDED = {
    "attention_backward": "adds or transposes, but by no copy engine",
    "launch_control": "one thread asks for work items, and no threads copy",
    "gemm_mx": "scales are loaded by a warp of its own, and by bulk copies alone",
    "gemm_nvf4": "scales are loaded by a warp of its own, and by bulk copies alone",
}
TWO_KERNELS = ("_dkv", "_dq", "_delta")  # of the backward pass, which add nothing in memory


def without_form(name, reasons):
    found = next((reason for part, reason in reasons.items() if part in name), "")
    return "" if name.endswith(TWO_KERNELS) else found


def programs():
    for path in sorted(LIBRARY.glob("*.yaml")):
        for target in targets_of(path):
            text = path.read_text()
            twice = target != "sm_90a" and text.count("mma:") > 1
            straight = path.stem == "copy" or "cluster:" in text
            if target.startswith("sm_") and not twice and not straight:
                yield pytest.param(path.stem, target, id=f"{path.stem}-{target}")


@pytest.mark.heavy
@pytest.mark.parametrize(("name", "target"), list(programs()))
def test_the_whole_library_without_tensor_maps(name, target, tmp_path):
    if reason := without_form(name, UNGUARDED):
        with pytest.raises(BuildRefused) as caught:
            built(unaligned(name), tmp_path, target)
        assert any(reason in step.reason for step in caught.value.steps)
        return
    compared(unaligned(name), tmp_path, target, policies=("shuffled", "starved"))


# ----------------------------------------------------------------------- faults in what is written

FAULTS = {
    "no fence": ("titan::fence_proxy_async();\n", "\n"),
    "no guard of rows": ("n_M, n_K,", "n_M + 1, n_K,"),
    "no guard of columns": ("n_N, n_K,", "n_N, n_K + 1,"),
    "the wrong stage": ("s_a + (x_t % 4) * 16384, 16384", "s_a + ((x_t + 1) % 4) * 16384, 16384"),
    "the wrong iteration": ("w_n * 128, x_t * 64", "w_n * 128, (x_t + 1) * 64"),
    "threads left out": ("titan_warp % 4 * 32 + titan_lane);", "titan_warp % 4 * 32);"),
}


@pytest.mark.parametrize("fault", sampled(FAULTS, every=4))
def test_a_fault_in_the_copies_is_seen(fault, tmp_path):
    tile, produced = built(unaligned("gemm"), tmp_path)
    old, new = FAULTS[fault]
    source = produced.emitted.files["kernel.cu"]
    assert old in source
    wrong = {**produced.emitted.files, "kernel.cu": source.replace(old, new)}
    sizes = {"M": 130, "N": 77, "K": 329}
    manifest = produced.emitted.manifest
    assert any(
        shown(tile, wrong, manifest, sizes, seed=seed, policy=policy)
        for seed, policy in enumerate(("shuffled", "starved"))
    ) or differs(tile, produced, wrong)


def differs(tile, produced, files):
    """How the PTX synchronises otherwise than the sync program: lanes that copy are not decided."""
    program, manifest = produced.built.program, produced.emitted.manifest
    launched = launches(tile, program, manifest)
    return Emission(files, dict(manifest), program, tile, launched).faults(files)


@needs_nvcc
@pytest.mark.parametrize(
    ("name", "target"), [("gemm", "sm_90a"), ("gemm_bias_gelu_sm_100a", "sm_100a")]
)
def test_the_machine_code_does_what_was_verified(name, target, tmp_path):
    _, produced = built(unaligned(name), tmp_path, target, with_toolchain=True)
    assert "guarded" in produced.built.shape.name
    assert produced.compared.startswith("PTX")
    assert produced.figures is not None
    assert not produced.figures.spill_bytes


# ------------------------------------------------------------------- the last iteration by threads


def with_tail(name: str) -> str:
    return (LIBRARY / f"{name}.yaml").read_text() + "tail: threads\n"


# Fewer iterations than stages, as many, more; whole and ragged ones.
TAILS = {
    ("K", "M", "N"): [
        {"M": 3, "N": 8, "K": 16},
        {"M": 130, "N": 72, "K": 256},
        {"M": 67, "N": 136, "K": 592},
    ],
    ("heads", "keys", "queries"): [
        {"heads": 2, "queries": 3, "keys": 5},
        {"heads": 1, "queries": 200, "keys": 333},
    ],
    ("M",): [{"M": 1}, {"M": 301}],
    ("M", "N"): [{"M": 1, "N": 16}, {"M": 130, "N": 400}],
}


def test_the_tail_is_taken_because_it_is_asked_for(tmp_path):
    _, produced = built(with_tail("gemm"), tmp_path)
    told = as_text("gemm.yaml", produced)
    assert "depth 4, last iteration by threads, order of the schedule" in told
    assert "bulk copies: the tile program asks for a last iteration that threads copy" in told
    assert run(["gate", str(produced.folder), "--fresh"]) == 0


def test_the_tail_stands_in_the_fixed_list():
    tile = parse_tile((LIBRARY / "gemm.yaml").read_text())
    names = [shape.name for shape in shapes(tile, 4, 4)]
    place = names.index("depth 2, last iteration by threads, one iteration at a time")
    assert names[place - 1] == "depth 2, one iteration at a time, lean loading warp"
    assert names[place + 1] == "depth 4, no loading warp"


def multiples(names):
    return {name: 16 * (i + 1) for i, name in enumerate(names)}


def tail_compared(name, folder, target="sm_90a", policies=("shuffled", "starved")):
    tile, produced = built(with_tail(name), folder, target)
    assert "last iteration by threads" in produced.built.shape.name
    manifest = produced.emitted.manifest
    names = tuple(sorted(item["name"] for item in manifest["parameters"]))
    chosen = [launchable(manifest, sizes) for sizes in TAILS.get(names, [multiples(names)])]
    for seed, (sizes, policy) in enumerate(product(chosen, policies)):
        found = compare(tile, produced.folder, manifest, sizes, seed=seed, policy=policy)
        assert found.same, (sizes, policy, found.describe())


@pytest.mark.parametrize("name", ["gemm", "copy"])
def test_the_last_iteration_by_threads(name, tmp_path):
    tail_compared(name, tmp_path)


def tailed():
    for path in sorted(LIBRARY.glob("*.yaml")):
        for target in targets_of(path):
            text = path.read_text()
            twice = target != "sm_90a" and text.count("mma:") > 1
            if target.startswith("sm_") and not twice and "cluster:" not in text:
                yield pytest.param(path.stem, target, id=f"{path.stem}-{target}")


# The check of threads that act for others does not follow what goes by way of the consumers from
# one work item to the next.
UNMET = "and do not synchronise before an engine uses it"
UNTAILED = {
    "attention_forward_256": "bytes of shared memory",
    "attention_forward_causal_256": "bytes of shared memory",
    "attention_backward": "bytes of shared memory",
    "launch_control": UNGUARDED["launch_control"],
    "gemm_mx": "the tile program asks for a last iteration that threads copy",
    "gemm_nvf4": "the tile program asks for a last iteration that threads copy",
    **dict.fromkeys(("gemm_bias_gelu", "gemm_low_k", "_persistent", "gemm_ping_pong"), UNMET),
}


@pytest.mark.heavy
@pytest.mark.parametrize(("name", "target"), list(tailed()))
def test_the_whole_library_with_such_tails(name, target, tmp_path):
    tile = parse_tile((LIBRARY / f"{name}.yaml").read_text(), target=target)
    reason = "" if name.endswith("_query_sums") else without_form(name, UNTAILED)
    if reason and (reason != UNMET or tile.persistent):
        with pytest.raises(BuildRefused) as caught:
            built(with_tail(name), tmp_path, target)
        assert any(reason in step.reason for step in caught.value.steps)
        return
    if name.endswith("_packed"):  # threads copy all that has no tensor map there
        _, produced = built(with_tail(name), tmp_path, target)
        assert "guarded copies by threads" in produced.built.shape.name
        return
    tail_compared(name, tmp_path, target)


EXPECT = "titan::barrier_arrive_expect(b_ring_a_full + (x_t % 4), 32768);"
TAIL_FAULTS = {
    "nobody expects the bytes": (EXPECT, "titan::barrier_arrive(b_ring_a_full + (x_t % 4));"),
    "two expect the bytes": (
        "titan::barrier_arrive(b_ring_a_full + (x_t % 4));",
        "titan::barrier_arrive_expect(b_ring_a_full + (x_t % 4), 32768);",
    ),
    "the tail is not fenced": (
        "titan::fence_proxy_async();\n      // produce ring_a[tiles - 1]",
        "\n      // produce ring_a[tiles - 1]",
    ),
    "the warp has not met": ("titan::warp_sync();\n        if (titan_leader)", "if (titan_leader)"),
    "one warp does not arrive": ("else if (titan_warp % 4 != 0", "else if (titan_warp % 4 > 1"),
}


@needs_nvcc
@pytest.mark.parametrize("fault", sampled(TAIL_FAULTS, every=8))
def test_machine_code_that_hands_stages_over_wrongly_is_refused(fault, tmp_path):
    from titan.validate.compare.compile import compile_package
    from titan.validate.compare.translation import translation

    tile, produced = built(with_tail("gemm"), tmp_path)
    old, new = TAIL_FAULTS[fault]
    emitted, program = produced.emitted, produced.built.program
    assert old in emitted.files["kernel.cu"]
    right = compile_package(emitted.files, "sm_90a")
    assert not translation(tile, program, emitted.manifest, right).faults
    text = emitted.files["kernel.cu"].replace(old, new)
    wrong = compile_package({**emitted.files, "kernel.cu": text}, "sm_90a")
    assert translation(tile, program, emitted.manifest, wrong).faults


# ------------------------------------------------------------------------------ random programs


def by_threads(seed: int) -> str:
    """Draws a program whose tensors may begin anywhere, or with such a tail; what became of it."""
    random = Random(seed)
    text = drawn(random, "sm_90a").replace("cluster: 2\n", "")
    if "{load:" not in text:
        return "nothing to copy"
    if random.random() < 0.3:
        text += "tail: threads\n"
    else:
        text = TENSOR.sub(
            lambda one: one.group(1) + random.choice(("}", ", aligned: false}")), text
        )
    try:
        tile = parse_tile(text)
        guarded = bool(without_map(tile))
        shape = Shape(
            "", random.randint(1, 4), overlapped=False, persistent=tile.persistent,
            guarded=guarded, tail=not guarded and tile.tail == "threads",
        )  # fmt: skip
        pipeline = construct(tile, shape, {}, 1)
        kernel, program = decoded(pipeline)
        judged(kernel, LIMITS)
        made = Made(tile, pipeline, program, emit(tile, kernel, program))
    except (TargetRefused, FormRefused, NotVerified, EmissionRefused) as refused:
        assert str(refused)
        return "refused"
    numbers = {name: size + random.randrange(8) for name, size in drawn_sizes(random).items()}
    one = random.randrange(1000)
    assert not (faults(made, numbers, one) or disagreement(made, numbers, one)), (text, pipeline)
    return "filled" if "fill_tile" in made.emitted.files["kernel.cu"] else "built"


def test_random_programs_by_threads():
    assert "filled" in [by_threads(seed) for seed in range(3)]


@pytest.mark.heavy
@pytest.mark.parametrize("seed", range(3, 63))
def test_more_random_programs_by_threads(seed):
    by_threads(seed)


@pytest.mark.parametrize("name", ["gemm_mxf8_sm_100a", "gemm_large_sm_100a"])
def test_a_tail_is_not_left_out_silently(name, tmp_path):
    """Products with scales and pairs of CTAs have no such form, and do not take another."""
    with pytest.raises(BuildRefused) as caught:
        built(with_tail(name), tmp_path, "sm_100a")
    assert any("asks for a last iteration" in step.reason for step in caught.value.steps)
