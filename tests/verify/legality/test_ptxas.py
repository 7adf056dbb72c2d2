"""Where the assembler has an opinion, the rules have the same one.

ptxas checks immediates of setmaxnreg, bar, tcgen05.alloc, cp.async.bulk, the shapes of wgmma, the
dimensions of bulk tensor copies, and whether a target has them. Skipped where there is no ptxas.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.verify.legality.kernels import case_of, examined, text
from titan.verify.legality.case import round_up
from titan.verify.legality.roles import registers_at_entry

PTXAS = shutil.which("ptxas")
needs_ptxas = pytest.mark.skipif(PTXAS is None, reason="no ptxas")


def assembles(
    tmp_path: Path, target: str, version: str, body: str, threads: int = 128, rest: str = ""
) -> bool:
    """Whether ptxas takes an entry with this body; faults of ours (syntax) are not opinions."""
    source = f"""
.version {version}
.target {target}
.address_size 64
.shared .align 1024 .b8 memory[4096];
.visible .entry k(.param .u64 p) .maxntid {threads} .minnctapersm 1 {rest}
{{
  .reg .pred q; .reg .b64 a, d<4>; .reg .b32 r, x, y; .reg .f32 f<256>; .reg .b32 h<256>;
  ld.param.u64 a, [p];
  mov.u32 r, memory;
  mov.u32 x, 0; mov.u32 y, 0;
  mov.u64 d0, 0; mov.u64 d1, 0;
{body}
  ret;
}}
"""
    path = tmp_path / "k.ptx"
    path.write_text(source, encoding="utf-8")
    assert PTXAS is not None
    command = [PTXAS, "-arch", target, str(path), "-o", os.devnull]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    told = result.stdout + result.stderr
    assert "syntax error" not in told.lower() and "unknown symbol" not in told.lower(), told
    return result.returncode == 0


@needs_ptxas
@pytest.mark.parametrize("number", [16, 23, 24, 28, 32, 100, 248, 256, 264])
def test_registers_of_setmaxnreg(tmp_path: Path, number: int):
    kernel = text(roles=f"{{w: {{warpgroups: 1, registers: {number}}}}}")
    body = f"  setmaxnreg.dec.sync.aligned.u32 {number};"
    legal = not [item for item in examined(kernel).errors if "setmaxnreg takes" in item.headline]
    assert assembles(tmp_path, "sm_90a", "8.0", body) == legal


@needs_ptxas
@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_120a"])
def test_targets_of_setmaxnreg(tmp_path: Path, target: str):
    kernel = text(target=target, roles="{w: {warpgroups: 1, registers: 32}}")
    body = "  setmaxnreg.dec.sync.aligned.u32 32;"
    assert assembles(tmp_path, target, "8.7", body) == (examined(kernel).errors == ())


@needs_ptxas
@pytest.mark.parametrize(("identifier", "threads"), [(0, 32), (15, 64), (16, 32), (1, 48), (1, 1)])
def test_named_barriers(tmp_path: Path, identifier: int, threads: int):
    kernel = text(
        named_barriers=f"{{b: {{stages: {identifier + 1}, threads: {threads}}}}}",
        program=f"{{w: [sync: 'b[{identifier}]']}}",
    )
    body = f"  bar.sync {identifier}, {threads};"
    assert assembles(tmp_path, "sm_90a", "8.0", body) == (examined(kernel).errors == ())


SHAPES = [
    (kind, n, accumulator)
    for kind in ("f16", "bf16", "tf32", "e4m3", "s8")
    for n in (8, 12, 24, 40, 48, 256, 264)
    for accumulator in ("f32", "f16", "s32")
]
OURS = {"s8": "i8", "s32": "i32"}
DEPTH = {"f16": 16, "bf16": 16, "tf32": 8, "e4m3": 32, "s8": 32}


@needs_ptxas
@pytest.mark.parametrize(("kind", "n", "accumulator"), SHAPES)
def test_shapes_of_wgmma(tmp_path: Path, kind: str, n: int, accumulator: str):
    k, a, d = DEPTH[kind], OURS.get(kind, kind), OURS.get(accumulator, accumulator)
    said = f"{{i: {{kind: wgmma, shape: [64, {n}, {k}], a: {a}, accumulator: {d}}}}}"
    legal = examined(text(matrix_instructions=said)).errors == ()
    number = n // 4 if accumulator == "f16" else n // 2
    letter = "f" if accumulator == "f32" else "h"
    registers = ", ".join(f"{letter}{index}" for index in range(number))
    flags = {"f16": "1, 1, 1, 0, 0", "bf16": "1, 1, 1, 0, 0", "s8": "1"}.get(kind, "1, 1, 1")
    body = (
        "  wgmma.fence.sync.aligned;\n"
        f"  wgmma.mma_async.sync.aligned.m64n{n}k{k}.{accumulator}.{kind}.{kind} "
        f"{{{registers}}}, d0, d1, {flags};"
    )
    assert assembles(tmp_path, "sm_90a", "8.0", body) == legal


@needs_ptxas
@pytest.mark.parametrize("target", ["sm_90", "sm_90a", "sm_100a"])
def test_targets_of_wgmma(tmp_path: Path, target: str):
    said = "{i: {kind: wgmma, shape: [64, 8, 16], a: f16, accumulator: f32}}"
    legal = examined(text(target=target, matrix_instructions=said)).errors == ()
    body = (
        "  wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {f0, f1, f2, f3}, d0, d1, "
        "1, 1, 1, 0, 0;"
    )
    assert assembles(tmp_path, target, "8.7", body) == legal


@needs_ptxas
@pytest.mark.parametrize("columns", [16, 32, 48, 64, 96, 256, 512, 1024])
def test_allocation_of_tensor_memory(tmp_path: Path, columns: int):
    kernel = text(
        target="sm_100a",
        pools="{t: {available: 512, kind: tensor}}",
        roles="{w: {warps: 1}}",
        program=f"{{w: [{{take: t, amount: {columns}}}, {{give: t, amount: {columns}}}]}}",
    )
    body = f"  tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [r], {columns};"
    assert assembles(tmp_path, "sm_100a", "8.7", body) == (examined(kernel).errors == ())


@needs_ptxas
@pytest.mark.parametrize("kind", ["i8", "f16"])
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a", "sm_103a", "sm_120a"])
def test_kinds_of_tcgen05(tmp_path: Path, kind: str, target: str):
    k, accumulator = (32, "i32") if kind == "i8" else (16, "f32")
    said = f"{{i: {{kind: tcgen05, shape: [128, 64, {k}], a: {kind}, accumulator: {accumulator}}}}}"
    legal = examined(text(target=target, matrix_instructions=said)).errors == ()
    body = (
        "  setp.eq.u32 q, x, 0;\n"
        f"  tcgen05.mma.cta_group::1.kind::{kind} [x], d0, d1, y, {{x, x, x, x}}, q;"
    )
    assert assembles(tmp_path, target, "8.8", body) == legal


@needs_ptxas
@pytest.mark.parametrize("size", [8, 16, 24, 32, 4096])
def test_sizes_of_bulk_copies(tmp_path: Path, size: int):
    kernel = text(
        buffers=f"{{A: {{bytes: {size}}}}}",
        barriers="{full: 1}",
        program="{w: [{bulk_load: 'A[0]', completes: 'full[0]'}]}",
    )
    body = (
        "  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
        f"[r], [a], {size}, [r];"
    )
    assert assembles(tmp_path, "sm_90a", "8.0", body) == (examined(kernel).errors == ())


@needs_ptxas
@pytest.mark.parametrize("mode", ["tile", "im2col"])
@pytest.mark.parametrize("rank", [1, 2, 3, 4, 5])
def test_dimensions_of_tensor_copies(tmp_path: Path, mode: str, rank: int):
    shape = ", ".join(["64"] + ["8"] * (rank - 1))
    rest = f"box: [{', '.join(['64'] + ['1'] * (rank - 1))}]"
    offsets = ""
    if mode == "im2col":
        rest = "mode: im2col, channels: 64, pixels: 1"
        names = ", ".join(["s"] * max(1, rank - 2))
        offsets = f", {{{names}}}"
    kernel = text(
        buffers="{A: {bytes: 128}}",
        tensor_maps=f"{{m: {{buffer: A, dtype: bf16, global_shape: [{shape}], {rest}}}}}",
    )
    legal = "TTN409" not in [item.code for item in examined(kernel).errors]
    coordinates = ", ".join(["x"] * rank)
    body = (
        "  .reg .b16 s; mov.u16 s, 0;\n"
        f"  cp.async.bulk.tensor.{rank}d.shared::cluster.global.{mode}"
        f".mbarrier::complete_tx::bytes [r], [a, {{{coordinates}}}], [r]{offsets};"
    )
    assert assembles(tmp_path, "sm_90a", "8.0", body) == legal


@needs_ptxas
@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_targets_of_tensor_copies(tmp_path: Path, target: str):
    kernel = text(
        target=target,
        buffers="{A: {bytes: 128}}",
        tensor_maps="{m: {buffer: A, dtype: bf16, global_shape: [64], box: [64]}}",
    )
    body = (
        "  cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
        "[r], [a, {x}], [r];"
    )
    assert assembles(tmp_path, target, "8.0", body) == (examined(kernel).errors == ())


@needs_ptxas
@pytest.mark.parametrize("count", [0, 1, 1_048_575, 1_048_576])
def test_it_has_no_opinion_on_counts(tmp_path: Path, count: int):
    """This is why the rule is needed: any count assembles."""
    assert assembles(tmp_path, "sm_90a", "8.0", f"  mbarrier.init.shared.b64 [r], {count};")


@needs_ptxas
@pytest.mark.parametrize("groups", [1, 2, 3, 4, 5, 6, 8])
def test_registers_at_entry(tmp_path: Path, groups: int):
    """A decrease from more than there are at entry is refused; from as many it is not.

    A launch with 255 holds 256, since registers are given out in eights.
    """
    entry = registers_at_entry(case_of(text()), groups)
    assert entry is not None
    held = round_up(entry, 8)
    for number in (held, held + 8):
        body = f"  setmaxnreg.dec.sync.aligned.u32 {number};"
        assert assembles(tmp_path, "sm_90a", "8.0", body, groups * 128) == (number == held)


REMOTE = {
    "init": ("initialised: false", "{init: 'b[0]@0'}", "mbarrier.init.SPACE.b64 [r], 1;"),
    "wait": (
        "initialised: true",
        "{wait: 'b[0]@0', parity: 0, scope: cluster}",
        "mbarrier.test_wait.parity.SPACE.b64 q, [r], 0;",
    ),
    "arrive": (
        "initialised: true",
        "{arrive: 'b[0]@0', scope: cluster}",
        "mbarrier.arrive.SPACE.b64 _, [r];",
    ),
}


@needs_ptxas
@pytest.mark.parametrize("space", ["shared::cta", "shared::cluster"])
@pytest.mark.parametrize("name", REMOTE)
def test_mbarriers_of_another_cta(tmp_path: Path, name: str, space: str):
    state, operation, instruction = REMOTE[name]
    ctas = 2 if space == "shared::cluster" else 1
    kernel = text(
        ctas=ctas, barriers=f"{{b: {{count: 1, {state}}}}}", program=f"{{w: [{operation}]}}"
    )
    legal = "TTN425" not in [item.code for item in examined(kernel).errors]
    body = "  " + instruction.replace("SPACE", space)
    assert assembles(tmp_path, "sm_90a", "8.0", body) == legal


@needs_ptxas
@pytest.mark.parametrize("groups", [(1, 1), (2, 2), (1, 2)])
def test_cta_groups(tmp_path: Path, groups: tuple[int, int]):
    rows = [
        f"{name}: {{kind: tcgen05, shape: [128, 64, 16], a: f16, accumulator: f32, "
        f"cta_group: {group}}}"
        for name, group in zip("ij", groups, strict=True)
    ]
    kernel = text(target="sm_100a", ctas=2, matrix_instructions="{" + ", ".join(rows) + "}")
    body = "  setp.eq.u32 q, x, 0;\n" + "\n".join(
        f"  tcgen05.mma.cta_group::{group}.kind::f16 [x], d0, d1, y, "
        f"{{{', '.join(['x'] * 4 * group)}}}, q;"
        for group in groups
    )
    assert assembles(tmp_path, "sm_100a", "8.7", body) == (examined(kernel).errors == ())


@needs_ptxas
@pytest.mark.parametrize(("target", "ctas"), [("sm_80", 2), ("sm_90", 2), ("sm_90", 8)])
def test_clusters(tmp_path: Path, target: str, ctas: int):
    kernel = text(target=target, ctas=ctas)
    taken = assembles(tmp_path, target, "8.0", "", rest=f".reqnctapercluster {ctas}, 1, 1")
    assert taken == (examined(kernel).errors == ())


FENCES = {
    "async": "fence.proxy.async",
    "async_release": "fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster",
    "async_acquire": "fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster",
    "tensormap_release": "fence.proxy.tensormap::generic.release.gpu",
    "tensormap_acquire": "fence.proxy.tensormap::generic.acquire.gpu [a], 128",
    "barrier_init": "fence.mbarrier_init.release.cluster",
    "constant": "fence.proxy.constant",
    "texture": "fence.proxy.texture",
    "surface": "fence.proxy.surface",
}


@needs_ptxas
@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100a"])
@pytest.mark.parametrize("fence", FENCES)
def test_proxy_fences(tmp_path: Path, target: str, fence: str):
    kernel = text(target=target, program=f"{{w: [{{fence: {fence}}}]}}")
    legal = "TTN426" not in [item.code for item in examined(kernel).errors]
    assert assembles(tmp_path, target, "8.7", f"  {FENCES[fence]};") == legal
