"""Loops out of TTGIR: operations, costs, dependences, rings, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from titan.cli.schedule import schedule
from titan.foundation.source.span import Source
from titan.frontends.graph.extract import load_ttgir, loop_of
from titan.frontends.graph.shapes import shapes
from titan.scheduling import rau
from titan.scheduling.check import check
from titan.scheduling.loop.model import Loop
from titan.target.load import TargetRefused

SAMPLES = Path(__file__).parent / "ttgir"

BEFORE_PIPELINES = (SAMPLES / "scores_before_pipelines.ttgir").read_text(encoding="utf-8")


def edges(loop: Loop) -> set[tuple[str, str, int, int]]:
    names = [operation.name for operation in loop.operations]
    return {(names[e.source], names[e.sink], e.delay_cycles, e.distance) for e in loop.dependences}


def test_the_graph_of_a_loop_before_its_pipeline() -> None:
    loop = loop_of(Source("k.ttgir", BEFORE_PIPELINES))
    found = {operation.name: operation for operation in loop.operations}
    assert list(found) == ["keys", "s", "m", "new", "less", "p"]
    assert found["s"].cycles == 64 * 128 * 64 // 2048 and found["s"].registers == 64 * 128
    assert found["p"].uses[0].unit == "SFU" and found["p"].cycles == 64 * 128 // 16
    assert found["keys"].variable_latency and found["keys"].slots == 3
    assert dict(found["keys"].footprints) == {"shared": 128 * 64 * 2}
    latency = {name: operation.latency_cycles for name, operation in found.items()}
    assert edges(loop) == {
        ("keys", "s", 0, 0),  # a stream, awaited: through the buffer and its transposed view
        ("s", "m", latency["s"], 0),
        ("m", "new", latency["m"], 0),
        ("new", "new", found["new"].cycles, 1),
        ("new", "less", latency["new"], 0),  # through the broadcast
        ("s", "less", latency["s"], 0),
        ("less", "p", latency["less"], 0),
        ("p", "s", latency["p"], 1),  # by iter_args
    }
    result = rau.solve(loop)
    assert result.schedule is not None and check(loop, result.schedule) == []


def test_a_pipelined_ring_gives_the_graph_of_its_iterations() -> None:
    """The file loads three iterations ahead; the product still needs the tile of its own."""
    loop = load_ttgir(str(SAMPLES / "pipelined_gemm_sm100.ttgir"))
    loads = [v for v, operation in enumerate(loop.operations) if operation.streaming]
    (product,) = (v for v, operation in enumerate(loop.operations) if not operation.streaming)
    assert [loop.operations[v].slots for v in loads] == [3, 3]
    for load in loads:
        pairs = {(e.source, e.sink): e for e in loop.dependences}
        assert pairs[load, product].distance == 0 and pairs[load, product].blocking
        assert pairs[product, load].distance == 3 and pairs[product, load].kind == "order"
    assert loop.operations[product].footprints == (("tensor", 128),)
    assert loop.operations[product].cycles == 128 * 128 * 64 // 4096


@pytest.mark.parametrize("name", ["ring_gemm_fault0", "pipelined_gemm_sm90_specialised"])
def test_the_command_schedules_what_gluon_and_triton_made(name: str) -> None:
    said = CliRunner().invoke(
        schedule, [str(SAMPLES / f"{name}.ttgir"), "--solver", "rau"], standalone_mode=False
    )
    assert "optimal interval: it equals the resource: TC" in said.output
    assert "strategy: loads on a producer warp" in said.output


def test_partitions_hand_tiles_on_through_memory() -> None:
    """Loads and products stand in different regions; buffers are arguments of the partitions."""
    loop = load_ttgir(str(SAMPLES / "ring_gemm_fault0.ttgir"))
    distances = {(e.kind, e.distance) for e in loop.dependences}
    assert distances == {("data", 0), ("data", 1), ("order", 3)}


def refused(text: str, entry: str | None = None) -> list[str]:
    with pytest.raises(TargetRefused) as caught:
        loop_of(Source("k.ttgir", text), entry)
    assert all(item.span is not None for item in caught.value.diagnostics)
    return [item.headline for item in caught.value.diagnostics]


def test_what_is_not_followed_is_refused_with_its_place() -> None:
    strange = BEFORE_PIPELINES.replace("math.exp2", "math.lgamma")
    assert refused(strange) == ["`math.lgamma` of the loop is not supported: its cost is not known"]
    assert "whose rates are not known" in refused(BEFORE_PIPELINES.replace("cuda:90", "cuda:75"))[0]
    assert refused(BEFORE_PIPELINES, "other") == ["no kernel of that name is in the file"]
    branch = BEFORE_PIPELINES.replace(
        "      %keys = tt", "      scf.if %t {\n      %keys = tt"
    ).replace("      %tile =", "      }\n      %tile =")
    assert refused(branch) == ["control flow inside of the loop holds operations on tensors"]
    number = BEFORE_PIPELINES.replace("tensor<64x64xf16, #dot> *", "tensor<64x64xi8, #dot> *")
    assert "has no rate for i8" in refused(number)[0]


def test_shapes_of_types() -> None:
    text = "tensor<128x64x!tt.ptr<f16>, #blocked> -> <128x64xf16, #shared, #smem, mutable>"
    pointers, view = shapes(text)
    assert (pointers.bits, pointers.pointed.bits, pointers.place) == (64, 16, "registers")
    assert (view.shape, view.dtype, view.place, view.words) == ((128, 64), "f16", "shared", 0)
    assert shapes("!ttg.memdesc<3x1xi64, #shared1, #smem, mutable>") == []
    (tensor,) = shapes("!ttg.memdesc<128x64xf32, #tmem, #ttng.tensor_memory, mutable>")
    assert tensor.place == "tensor" and tensor.bytes == 128 * 64 * 4
