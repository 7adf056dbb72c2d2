"""The loops of tile programs: near to those of the library, and accepted by the schedulers."""

from __future__ import annotations

from pathlib import Path

import pytest

from titan.codegen.tile.cost import CostError, team_shape
from titan.codegen.tile.load import load_tile, parse_tile, targets_of
from titan.codegen.tile.loops import loop_of, origins
from titan.codegen.tile.rates import rates
from titan.foundation.resources import root
from titan.scheduling.loop.bounds import longest_paths, resource_bound
from titan.scheduling.loop.load import load_loop
from titan.scheduling.loop.model import DATA, ORDER, Loop
from titan.target.load import machine

FOLDER = root("protocols") / "tiles"
LIBRARY = sorted(FOLDER.glob("*.yaml"))
GEMM = (FOLDER / "gemm.yaml").read_text(encoding="utf-8")
ATTENTION = (FOLDER / "attention_forward.yaml").read_text(encoding="utf-8")


def edges(loop: Loop) -> dict[tuple[str, str, int, str], tuple[int, bool]]:
    names = [operation.name for operation in loop.operations]
    return {
        (names[e.source], names[e.sink], e.distance, e.kind): (e.delay_cycles, e.blocking)
        for e in loop.dependences
    }


@pytest.mark.parametrize("path", LIBRARY, ids=lambda path: path.stem)
def test_every_program_of_the_library_has_a_loop(path: Path) -> None:
    for target in targets_of(path):
        tile = load_tile(path, target)
        loop = loop_of(tile, machine(target), 2)
        longest_paths(loop)  # no cycle of distance 0
        assert resource_bound(loop)
        found = origins(tile, machine(target))
        assert set(found) == {operation.name for operation in loop.operations}
        for operation in loop.operations:
            assert set(use.unit for use in operation.uses) <= set(loop.units)
            assert operation.latency_cycles >= operation.cycles
        computed = {(o.operation, o.group) for o in found.values() if not o.operand}
        for item in tile.body:
            teams, _ = team_shape(tile, rates(target))
            groups = [None] if item.kind == "load" else list(range(teams))
            assert all((item.name, group) in computed for group in groups)
        limit = machine(target).registers_total
        threads = machine(target).threads_per_warp
        assert sum(t.words(threads) or 0 for t in loop.teams) <= limit


def test_the_gemm_of_the_library_of_loops() -> None:
    """128 x 256 x 64 in two groups, as protocols/loops/gemm_hopper.yaml has it."""
    loop = loop_of(parse_tile(GEMM.replace("columns: 128", "columns: 256")), machine("sm_90a"), 4)
    known = load_loop(root("protocols") / "loops" / "gemm_hopper.yaml")
    assert [t.name for t in loop.teams] == [t.name for t in known.teams]
    assert [t.registers_per_thread for t in loop.teams] == [None, 240, 240]
    pairs = {"ldA": "a", "ldB": "b", "mma0": "acc_next_0", "mma1": "acc_next_1"}
    for old, new in pairs.items():
        first, second = known.operations[known.index[old]], loop.operations[loop.index[new]]
        for name in (
            "registers", "warps", "footprints", "variable_latency", "streaming", "slots",
        ):  # fmt: skip
            assert getattr(first, name) == getattr(second, name), (old, name)
        if old.startswith("mma"):
            assert (first.uses, first.latency_cycles, first.issue_window) == (
                second.uses, second.latency_cycles, second.issue_window,
            )  # fmt: skip
    renamed = {
        (pairs[a], pairs[b], distance, kind): value
        for (a, b, distance, kind), value in edges(known).items()
    }
    assert edges(loop) == renamed


def test_the_attention_of_the_library_of_loops() -> None:
    """The operations that protocols/loops/fa3_forward.yaml has are here with the same units."""
    loop = loop_of(parse_tile(ATTENTION), machine("sm_90a"), 2)
    known = load_loop(root("protocols") / "loops" / "fa3_forward.yaml")
    pairs = {
        "LK": "k", "LV": "v", "QK0": "s_0", "max0": "top_tile_0", "sub0": "shifted_0",
        "exp0": "p_0", "sum0": "p_sum_0", "cvt0": "p16_0", "rescale1": "o_shrunk_1",
        "PV1": "o_next_1",
    }  # fmt: skip
    for old, new in pairs.items():
        first, second = known.operations[known.index[old]], loop.operations[loop.index[new]]
        assert first.uses == second.uses, old
        assert first.warps == second.warps
        assert first.registers in (second.registers, 128)  # row values
        assert abs(first.latency_cycles - second.latency_cycles) <= 128
    found = edges(loop)
    assert found[("o_next_0", "o_shrunk_0", 1, DATA)] == (640, True)
    assert found[("s_0", "masked_0", 0, DATA)] == (640, True)
    assert found[("k", "s_0", 0, DATA)] == (0, True)
    assert found[("s_0", "k", 2, ORDER)] == (640, False)
    assert found[("top_next_1", "fall_1", 1, DATA)] == (14, False)
    assert found[("top_next_1", "fall_1", 0, DATA)] == (14, False)
    assert ("s_0", "s_1", 0, DATA) not in found
    # Two groups of 16384 words of accumulators and scores; q off the memory, which out shares.
    assert dict(loop.memories)["shared"] == 232448 - 32768 - 1024


def test_amd_reads_operands_into_registers() -> None:
    text = GEMM.replace("target: sm_90a", "target: gfx942").replace("groups: 2", "groups: 8")
    loop = loop_of(parse_tile(text), machine("gfx942"), 2)
    names = [operation.name for operation in loop.operations]
    assert names[:5] == ["a", "b", "a_into_acc_next_0", "b_into_acc_next_0", "acc_next_0"]
    read_a, read_b, product = (loop.operations[n] for n in (2, 3, 4))
    assert [u.unit for o in (read_a, read_b, product) for u in o.uses] == ["LDS", "LDS", "MFMA"]
    assert (read_a.cycles, read_b.cycles, product.cycles) == (64, 128, 512)
    assert (read_a.registers, read_b.registers, product.registers) == (2048, 4096, 8192)
    found = edges(loop)
    assert found[("a", "a_into_acc_next_1", 0, DATA)] == (900, True)
    assert found[("a_into_acc_next_1", "a", 2, ORDER)] == (128, False)
    assert found[("b_into_acc_next_0", "acc_next_0", 0, DATA)] == (192, False)
    assert found[("acc_next_0", "acc_next_0", 1, DATA)] == (512, False)
    assert [team.name for team in loop.teams] == ["waves0", "waves1"]
    assert [team.registers_per_thread for team in loop.teams] == [256, 256]
    assert not any(operation.variable_latency for operation in loop.operations)
    assert {operation.warps for operation in loop.operations} == {4}
    fewer = loop_of(parse_tile(text.replace("groups: 8", "groups: 4")), machine("gfx942"), 2)
    assert [(t.name, t.warps, t.registers_per_thread) for t in fewer.teams] == [("waves0", 4, 512)]
    assert fewer.operations[fewer.index["acc_next_0"]].cycles == 1024
    assert dict(loop.memories)["shared"] == 65536


def test_blackwell_accumulates_in_tensor_memory() -> None:
    text = GEMM.replace("target: sm_90a", "target: sm_100a").replace("groups: 2", "groups: 1")
    loop = loop_of(parse_tile(text.replace("columns: 128", "columns: 256")), machine("sm_100a"), 4)
    product = loop.operations[loop.index["acc_next_0"]]
    known = load_loop(root("protocols") / "loops" / "gemm_blackwell.yaml")
    same = known.operations[known.index["mma"]]
    assert (product.uses, product.latency_cycles, product.footprints, product.warps) == (
        same.uses, same.latency_cycles, same.footprints, same.warps,
    )  # fmt: skip
    assert [team.name for team in loop.teams] == ["producer", "mma", "consumer0"]
    sums = text.replace("acc_next: {mma: [a, b.T], add: acc}", "product: {mma: [a, b.T]}")
    sums = sums.replace("after:", "  - acc_next: {add: [acc, product]}\nafter:")
    with pytest.raises(CostError, match="acc_next uses the product product within the loop"):
        loop_of(parse_tile(sums), machine("sm_100a"), 2)


def test_attention_on_blackwell_passes_through_tensor_memory() -> None:
    """What protocols/loops/fa4_forward.yaml has stands here with the same units and numbers."""
    tile = load_tile(FOLDER / "attention_forward_sm_100a.yaml")
    loop = loop_of(tile, machine("sm_100a"), 2)
    known = load_loop(root("protocols") / "loops" / "fa4_forward.yaml")
    pairs = {
        "LK": "k", "QK0": "s_0", "tldS0": "s_fetched_0", "max0": "top_score_0", "sub0": "shifted_0",
        "tstP0": "p16_put_0", "tldO0": "o_fetched_0", "rescale1": "o_shrunk_1",
        "tstO1": "o_shrunk_put_1", "PV1": "o_next_1",
    }  # fmt: skip
    for old, new in pairs.items():
        first, second = known.operations[known.index[old]], loop.operations[loop.index[new]]
        assert [use.unit for use in first.uses] == [use.unit for use in second.uses], old
        assert abs(first.latency_cycles - second.latency_cycles) <= 20, old
        assert (first.warps, first.footprints) == (second.warps, second.footprints), old
    found = edges(loop)
    scores, accumulator = 900, 900
    assert found[("s_0", "s_fetched_0", 0, DATA)] == (scores, True)
    assert found[("s_fetched_0", "masked_0", 0, DATA)] == (532, False)
    assert found[("s_fetched_0", "s_0", 1, ORDER)] == (532, False)
    assert found[("o_next_1", "s_1", 1, ORDER)] == (512, False)
    assert found[("p16_put_0", "o_next_0", 0, DATA)][1]
    assert found[("o_next_1", "o_fetched_1", 1, DATA)] == (accumulator, True)
    assert found[("o_shrunk_put_1", "o_next_1", 0, DATA)] == (97, True)
    assert ("s_0", "masked_0", 0, DATA) not in found
    assert ("o_next_0", "o_shrunk_0", 1, DATA) not in found
    names = ["producer", "mma", "softmax0", "softmax1", "correction"]
    assert [team.name for team in loop.teams] == names
    # q, one sub-tile of the result, and the rows that are handed over, off the shared memory.
    rows = 2 * 4 * 256
    assert dict(loop.memories)["shared"] == 232448 - 65536 - 32768 - rows - 1024


def test_two_products_that_are_no_attention_have_no_loop_in_tensor_memory() -> None:
    text = (FOLDER / "attention_forward_sm_100a.yaml").read_text(encoding="utf-8")
    plain = text.replace("add: o_shrunk", "add: o").replace(
        "  - o_shrunk: {multiply: [o, shrink]}\n", ""
    )
    found = {op.name for op in loop_of(parse_tile(plain), machine("sm_100a"), 2).operations}
    assert {"s_fetched_0", "p16_put_1"} < found and "o_fetched_0" not in found
    text = text.replace("{multiply: [o, shrink]}", "{add: [o, shrink]}")
    with pytest.raises(CostError, match="products are in tensor memory: o_next does not continue"):
        loop_of(parse_tile(text), machine("sm_100a"), 2)


def test_a_machine_without_rates_is_refused() -> None:
    with pytest.raises(KeyError):
        loop_of(parse_tile(GEMM), machine("toy_hopper"), 2)


def test_fp8_is_twice_as_fast_and_activations_have_their_own_rates() -> None:
    wide = loop_of(parse_tile(GEMM), machine("sm_90a"), 2)
    fp8 = GEMM.replace("dtype: bf16", "dtype: e4m3").replace("to: bf16", "to: e4m3")
    narrow = loop_of(parse_tile(fp8), machine("sm_90a"), 2)
    cycles = [loop.operations[loop.index["acc_next_0"]].cycles for loop in (wide, narrow)]
    assert cycles == [256, 128]
    text = """\
titan: 1
tile: act
target: sm_90a
sizes: {M: any}
tensors:
  X: {shape: [M, 64], dtype: bf16}
  b: {shape: [64], dtype: f32}
  Y: {shape: [M, 64], dtype: bf16, output: true}
work: {m: M}
loop: {t: 4}
body:
  - x: {load: "X[m * 256 + t * 64, 0]", tile: [64, 64]}
  - bias: {vector: "b[0]", tile: [64]}
  - r: {read: x}
  - z: {add: [r, bias]}
  - y: {activation: z, function: FUNCTION}
  - o: {convert: y, to: bf16}
  - s: {store: o, to: "Y[m * 256 + t * 64, 0]"}
"""
    loops = {
        name: loop_of(parse_tile(text.replace("FUNCTION", name)), machine("sm_90a"), 3)
        for name in ("relu", "gelu")
    }
    uses = {name: loop.operations[loop.index["y_0"]].uses for name, loop in loops.items()}
    assert [(u.unit, u.cycles, u.first_cycle) for u in uses["relu"]] == [("ALU", 64, 0)]
    assert [(u.unit, u.cycles, u.first_cycle) for u in uses["gelu"]] == [
        ("SFU", 256, 0), ("FMA", 128, 256),
    ]  # fmt: skip
    loop = loops["relu"]
    store = loop.operations[loop.index["s_0"]]
    assert [(u.unit, u.cycles) for u in store.uses] == [("SMEM", 64), ("TMA", 48)]
    assert loop.operations[loop.index["bias_0"]].registers == 64 * 32
    assert edges(loop)[("r_0", "x", 3, ORDER)] == (94, False)
    assert loop.teams[1].registers_per_thread == 240
