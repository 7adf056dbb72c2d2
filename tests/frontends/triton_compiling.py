"""Compiles the kernels of triton_kernels.py without a GPU: TTGIR, PTX, and a launch of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from titan.foundation.source.span import Source
from titan.frontends.ptx.launch import LaunchDescription, read_launch_text

TILES = 6  # of the launches


@dataclass(frozen=True)
class Compiled:
    """What Triton made of one kernel."""

    name: str
    ttgir: Source
    ptx: Source
    launch: LaunchDescription


def _map(box: tuple[int, int], extents: tuple[int, int]) -> str:
    inner = f"dimensions: [{extents[1]}, {extents[0]}], box: [{box[1]}, {box[0]}]"
    return f"{{map: {{{inner}, data_type: f16, swizzle: 128B}}}}"


def _launch(boxes: list[tuple[int, int]], numbers: list[float], metadata: Any, grid: int) -> str:
    """A descriptor is a map, its extents and its strides; two scratch pointers end the list."""
    parameters = []
    for rows, columns in boxes:
        box = (min(rows, 256), min(columns, 64))
        parameters += [_map(box, (1024, 1024)), "1024", "1024", "1024", "1"]
    parameters += [str(number) for number in numbers] + ["unknown", "unknown"]
    return (
        f"{{grid: {grid}, dynamic_shared: {metadata.shared}, "
        f"parameters: [{', '.join(parameters)}]}}"
    )


def _compiled(
    name: str, source: Any, sm: int, options: dict[str, int], boxes: list, numbers: list[float]
) -> Compiled:
    import triton
    from triton.backends.compiler import GPUTarget

    made = triton.compile(source, target=GPUTarget("cuda", sm, 32), options=options)
    text = _launch(boxes, numbers, made.metadata, 4)
    launch, errors = read_launch_text(text, f"{name}.yaml")
    assert launch is not None, errors
    ttgir = re.sub(r'"/[^"]*/', '"', made.asm["ttgir"])
    return Compiled(
        name, Source(f"{name}.ttgir", ttgir), Source(f"{name}.ptx", made.asm["ptx"]), launch
    )


def ring_gemm(fault: int = 0, depth: int = 3) -> Compiled:
    """The hand-written ring of Gluon on sm_90."""
    from triton.experimental.gluon import language as gl
    from triton.experimental.gluon._runtime import GluonASTSource

    from tests.frontends import triton_kernels

    boxes = [(64, 64), (128, 64), (64, 128)]
    signature = {
        name: f"tensordesc<fp16[{box[0]},{box[1]}],"
        f"{gl.NVMMASharedLayout.get_default_for(list(box), gl.float16)!r}>"
        for name, box in zip("abc", boxes, strict=True)
    }
    signature |= {"n": "i32", "k": "i32", "DEPTH": "constexpr", "FAULT": "constexpr"}
    constants = {"DEPTH": depth, "FAULT": fault}
    source = GluonASTSource(
        fn=triton_kernels.ring_gemm, signature=signature, constexprs=constants, attrs={}
    )
    name = f"ring_gemm_fault{fault}"
    return _compiled(name, source, 90, {"num_warps": 4}, boxes, [512, 64 * TILES])


def _descriptors(boxes: dict[str, tuple[int, int]]) -> dict[str, str]:
    return {name: f"tensordesc<fp16[{box[0]},{box[1]}]>" for name, box in boxes.items()}


def pipelined_gemm(sm: int, specialised: bool, stages: int = 3) -> Compiled:
    """Triton's own pipeline of a GEMM."""
    from triton.compiler import ASTSource

    from tests.frontends import triton_kernels

    rows = 64 if specialised and sm == 90 else 128
    boxes = {"a": (rows, 64), "b": (128, 64), "c": (rows, 128)}
    constants = {
        "ROWS": rows, "COLUMNS": 128, "INNER": 64, "SPECIALISED": specialised, "STAGES": stages,
    }  # fmt: skip
    signature = _descriptors(boxes) | {"m": "i32", "n": "i32", "k": "i32"}
    signature |= dict.fromkeys(constants, "constexpr")
    source = ASTSource(
        fn=triton_kernels.pipelined_gemm, signature=signature, constexprs=constants, attrs={}
    )
    options = {"num_warps": 4, "num_stages": stages}
    name = f"pipelined_gemm_sm{sm}" + ("_specialised" if specialised else "")
    return _compiled(name, source, sm, options, list(boxes.values()), [512, 512, 64 * TILES])


def attention(sm: int, specialised: bool) -> Compiled:
    """Triton's own pipeline of an attention."""
    from triton.compiler import ASTSource

    from tests.frontends import triton_kernels

    rows = 64 if sm == 90 else 128
    boxes = {"q": (rows, 64), "k": (64, 64), "v": (64, 64), "o": (rows, 64)}
    constants = {"WIDTH": 64, "ROWS": rows, "COLUMNS": 64, "SPECIALISED": specialised}
    signature = _descriptors(boxes) | {"keys": "i32", "scale": "fp32"}
    signature |= dict.fromkeys(constants, "constexpr")
    source = ASTSource(
        fn=triton_kernels.attention, signature=signature, constexprs=constants, attrs={}
    )
    options = {"num_warps": 4, "num_stages": 3}
    name = f"attention_sm{sm}" + ("_specialised" if specialised else "")
    return _compiled(name, source, sm, options, list(boxes.values()), [64 * TILES, 0.125])


def _cluster_descriptor(box: tuple[int, int], layout: tuple[tuple[int, int], ...]) -> str:
    from triton.experimental.gluon import language as gl

    memory = gl.NVMMASharedLayout.get_default_for(list(box), gl.float16, cga_layout=layout)
    return f"tensordesc<fp16[{box[0]},{box[1]}],{memory!r}>"


def _gluon_ttgir(
    name: str, kernel: Any, signature: dict[str, str], constants: dict[str, Any],
    target: Any, options: dict[str, int],
) -> tuple[Source, Source]:  # fmt: skip
    """TTGIR, and PTX or assembly."""
    import triton
    from triton.experimental.gluon._runtime import GluonASTSource

    signature = signature | dict.fromkeys(constants, "constexpr")
    source = GluonASTSource(fn=kernel, signature=signature, constexprs=constants, attrs={})
    return _texts(name, triton.compile(source, target=target, options=options))


def _texts(name: str, made: Any) -> tuple[Source, Source]:
    word = "ptx" if "ptx" in made.asm else "amdgcn"
    ttgir = re.sub(r'"/[^"]*/', '"', made.asm["ttgir"])
    return Source(f"{name}.ttgir", ttgir), Source(f"{name}.{word}", made.asm[word])


def two_cta_gemm(ctas: int = 2, depth: int = 3) -> tuple[Source, Source]:
    """The GEMM of pairs of CTAs; with four, two pairs share the tiles of b."""
    from triton.backends.compiler import GPUTarget

    from tests.frontends import cluster_kernels

    rows = ((1, 0), (2, 0))[: ctas.bit_length() - 1]
    columns = ((0, 1), (0, 0))[: ctas.bit_length() - 1]
    signature = {
        "a": _cluster_descriptor((128 * ctas, 64), rows),
        "b": _cluster_descriptor((64, 128), columns),
        "c": _cluster_descriptor((128 * ctas, 128), rows),
        "k": "i32",
    }
    constants = {"DEPTH": depth, "LAYOUT": rows}
    return _gluon_ttgir(
        "two_cta_gemm", cluster_kernels.two_cta_gemm, signature, constants,
        GPUTarget("cuda", 100, 32), {"num_warps": 4, "num_ctas": ctas},
    )  # fmt: skip


def multicast_rows(sm: int = 90) -> tuple[Source, Source]:
    """The tiles that a CTA hands to both."""
    from triton.backends.compiler import GPUTarget

    from tests.frontends import cluster_kernels

    tile = _cluster_descriptor((64, 64), ((0, 0),))
    return _gluon_ttgir(
        "multicast_rows", cluster_kernels.multicast_rows, {"a": tile, "c": tile, "k": "i32"}, {},
        GPUTarget("cuda", sm, 32), {"num_warps": 4, "num_ctas": 2},
    )  # fmt: skip


def amd_gemm(architecture: str, warps: int, stages: int) -> tuple[Source, Source]:
    """A GEMM for an AMD GPU: with eight warps its halves alternate."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from tests.frontends import amd_kernels

    side = 256 if warps == 8 else 128
    constants = {"ROWS": side, "COLUMNS": side, "INNER": 64}
    signature = dict.fromkeys("abc", "*fp16") | dict.fromkeys("mnk", "i32")
    attributes = {(n,): [["tt.divisibility", 16]] for n in range(6)}
    source = ASTSource(
        fn=amd_kernels.pointer_gemm, signature=signature | dict.fromkeys(constants, "constexpr"),
        constexprs=constants, attrs=attributes,
    )  # fmt: skip
    options = {"num_warps": warps, "num_stages": stages}
    made = triton.compile(source, target=GPUTarget("hip", architecture, 64), options=options)
    return _texts(f"gemm_{architecture}", made)


def staged_sum(architecture: str, stages: int = 3) -> tuple[Source, Source]:
    """The stages of a warp pipeline on an AMD GPU."""
    from triton.backends.compiler import GPUTarget

    from tests.frontends import amd_kernels

    constants = {"STAGES": stages, "ROWS": 128, "COLUMNS": 64}
    signature = {"a": "*fp16", "c": "*fp16", "k": "i32"}
    return _gluon_ttgir(
        f"staged_sum_{architecture}", amd_kernels.staged_sum, signature, constants,
        GPUTarget("hip", architecture, 64), {"num_warps": 8},
    )  # fmt: skip
