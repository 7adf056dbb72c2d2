"""Tile files: every fault has its code and its place, all faults at once, and nothing hangs."""

from __future__ import annotations

from pathlib import Path

import pytest

from titan.codegen.tile.load import load_tile, parse_tile, targets_of
from titan.codegen.tile.model import ValuePlace
from titan.codegen.tile.rates import known_targets, load_rates, rates
from titan.foundation.resources import root
from titan.sync.expression import to_text
from titan.target.load import TargetRefused
from titan.verify.files import find_kernels

LIBRARY = sorted((root("protocols") / "tiles").glob("*.yaml"))
GEMM = (root("protocols") / "tiles" / "gemm_bias_gelu.yaml").read_text(encoding="utf-8")
ATTENTION = (root("protocols") / "tiles" / "attention_forward.yaml").read_text(encoding="utf-8")


def faults(text: str, target: str | None = None) -> list[tuple[str, str, int, int]]:
    with pytest.raises(TargetRefused) as caught:
        parse_tile(text, "k.yaml", target)
    found = []
    for item in caught.value.diagnostics:
        assert item.span is not None, item
        assert item.span.path == "k.yaml"
        assert item.headline[0] != item.headline[0].upper() or not item.headline[0].isalpha()
        assert not item.headline.endswith(".")
        found.append((item.code, item.headline, item.span.start_line, item.span.start_column))
    return found


@pytest.mark.parametrize("path", LIBRARY, ids=lambda path: path.stem)
def test_every_file_of_the_library_decodes_for_all_its_targets(path: Path) -> None:
    for target in targets_of(path):
        tile = load_tile(path, target)
        assert tile.name == path.stem
        assert tile.target == target
        assert tile.body


def test_a_program_is_what_its_file_says() -> None:
    tile = parse_tile(GEMM)
    assert [operation.kind for operation in tile.body] == ["load", "load", "mma"]
    assert dict(tile.sizes) == {"rows": 128, "columns": 128, "k_tile": 64}
    assert [(p.name, p.value, p.minimum) for p in tile.parameters] == [
        ("M", None, 1), ("N", None, 1), ("K", None, 1),
    ]  # fmt: skip
    a = tile.operation("a")
    assert a.result is not None and a.view is not None
    assert (a.result.rows, a.result.columns, a.result.dtype, a.result.place) == (
        128, 64, "bf16", ValuePlace.SHARED,
    )  # fmt: skip
    assert [to_text(offset) for offset in a.view.offsets] == ["m * 128", "k * 64"]
    product = tile.operation("acc_next")
    assert product.operands == ("a", "b", "acc")
    assert product.transpose == (False, True, False)
    assert product.result is not None and product.result.place is ValuePlace.FRAGMENT
    bias = tile.operation("bias_tile").result
    assert bias is not None and (bias.place, bias.rows, bias.columns) == (ValuePlace.COLUMN, 1, 128)
    assert tile.operation("narrow").result.dtype == "bf16"  # type: ignore[union-attr]
    assert tile.operation("c").result is None
    assert tile.persistent and tile.groups == 2 and tile.depth == 0 and tile.cluster == 1
    assert to_text(tile.trip_count) == "(K + 64 - 1) // 64"
    with pytest.raises(KeyError):
        tile.operation("nothing")


def test_row_values_and_masks_are_inferred() -> None:
    tile = parse_tile(ATTENTION)
    top = tile.operation("top_next").result
    assert top is not None and (top.place, top.rows, top.columns) == (ValuePlace.ROW, 128, 1)
    masked = tile.operation("masked")
    assert masked.number == float("-inf") and masked.condition is not None
    assert to_text(masked.condition) == "j * 128 + column < keys"
    assert [item.initial for item in tile.carried] == [float("-inf"), 0.0, 0.0]
    assert tile.operation("o_next").operands == ("p16", "v", "o_shrunk")


GEMM_FAULTS = [
    ("titan: 1", "titan: 2", "TTN016", "version 2", 1),
    ("target: sm_90a", "target: sm_90", "TTN010", "sm_90", 3),
    ("rows: 128,", "rows: x,", "TTN011", "x", 5),
    ("rows: 128,", "rows: 96,", "TTN608", "rows", 15),
    ("columns: 128,", "columns: 100,", "TTN608", "columns", 15),
    ("k_tile: 64}", "k_tile: 56}", "TTN608", "multiple of 32 bytes", 19),
    ("k_tile: 64}", "k_tile: K}", "TTN009", "depends on `K`", 5),
    ("A: {shape: [M, K], dtype: bf16}", "A: {shape: [M, K], dtype: f8}", "TTN010", "f8", 7),
    ("A: {shape: [M, K], dtype: bf16}", "A: {shape: [M, K], dtype: f16}", "TTN604", "bf16", 19),
    ("A: {shape: [M, K], dtype: bf16}", "A: {shape: [M, K], dtype: f32}", "TTN611", "f32", 19),
    ("bias: {shape: [N]", "M: {shape: [N]", "TTN013", "declared twice", 9),
    ("groups: 2", "groups: 3", "TTN608", "3 groups", 15),
    ("groups: 2", "groups: 9", "TTN009", "at most 3", 12),
    ("loop: {k: (K + k_tile - 1) // k_tile}", "loop: {k: K // (k_tile - 64)}", "TTN015", "div", 13),
    ("loop: {k: (K + k_tile - 1) // k_tile}", "loop: {row: 3}", "TTN013", "reserved", 13),
    ("initial: 0,", "initial: zero,", "TTN008", "number", 15),
    ("next: acc_next", "next: acc_nxt", "TTN606", "acc_nxt", 15),
    ("next: acc_next", "next: narrow", "TTN606", "narrow", 15),
    ("shape: [rows, columns], initial", "shape: [rows], initial", "TTN602", "row value", 19),
    ("k * k_tile]\", tile: [rows, k_tile]", "k * k_tile]\", tile: [rows, 32]", "TTN603", "32", 19),
    ("load: \"A[m * rows, k * k_tile]\"", "load: \"A[m * rows]\"", "TTN607", "1 offsets", 17),
    ("load: \"A[m * rows, k * k_tile]\"", "load: \"C[m * rows, k]\"", "TTN607", "output", 17),
    ("load: \"A[m * rows, k * k_tile]\"", "load: \"Aa[m * rows, k]\"", "TTN011", "Aa", 17),
    ("load: \"A[m * rows, k * k_tile]\"", "load: \"A[m * rows, q]\"", "TTN011", "`q`", 17),
    ("k * k_tile]\", tile: [rows, k_tile]", "k * k_tile]\", tile: [rows, 4]", "TTN608", "16", 17),
    ("load: \"A[m * rows, k * k_tile]\"", "load: A", "TTN015", "view", 17),
    ("mma: [a, b.T], add: acc", "mma: [a, b], add: acc", "TTN603", "64 columns", 19),
    ("mma: [a, b.T], add: acc", "mma: [a, bb.T], add: acc", "TTN011", "bb", 19),
    ("mma: [a, b.T], add: acc", "mma: [a], add: acc", "TTN009", "2 operands", 19),
    ("mma: [a, b.T], add: acc", "mma: [a, acc], add: acc", "TTN602", "shared memory", 19),
    ("mma: [a, b.T], add: acc", "mma: [a, b.T], ad: acc", "TTN006", "ad", 19),
    ("mma: [a, b.T], add: acc", "mma: [a, biased.T], add: acc", "TTN605", "`after`", 19),
    ("add: [acc, bias_tile]", "add: [acc_next, bias_tile]", "TTN605", "`body`", 22),
    ("add: [acc, bias_tile]", "add: [narrow, bias_tile]", "TTN605", "before it is defined", 22),
    ("add: [acc, bias_tile]", "add: [acc, bias_tile], exp2: acc", "TTN601", "`exp2`", 22),
    ("add: [acc, bias_tile]", "adds: [acc, bias_tile]", "TTN006", "adds", 22),
    ("add: [acc, bias_tile]", "add: [acc, bias_tile.T]", "TTN602", "transposed", 22),
    ("function: gelu", "function: relo", "TTN010", "relo", 23),
    ("function: gelu", "form: gelu", "TTN007", "function", 23),
    ("to: bf16}", "to: f32}", "TTN604", "already", 24),
    ("store: narrow", "store: activated", "TTN604", "holds bf16", 25),
    ("store: narrow", "store: bias_tile", "TTN602", "column value", 25),
    ("to: \"C[m * rows, n * columns]\"", "to: \"A[m * rows, n * columns]\"", "TTN607", "`A`", 25),
    ("to: \"C[m * rows, n * columns]\"", "to: \"C[m * rows, 0]\"", "TTN612", "`n`", 25),
    ("to: \"C[m * rows, n * columns]\"", "to: \"C[m * 64, n * columns]\"", "TTN612", "`m`", 25),
    ("to: \"C[m * rows, n * columns]\"", "to: \"C[m * n, n * columns]\"", "TTN612", "`m`", 25),
    ("  - c: {", "  - a_0: {", "TTN013", "group 0", 25),
    ("  - c: {", "  - together: {", "TTN013", "reserved", 25),
    ("persistent: true", "persistent: maybe", "TTN008", "true", 26),
    ("persistent: true", "depht: 3", "TTN006", "depht", 26),
    ("persistent: true", "depth: 99", "TTN009", "at most 16", 26),
]  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "code", "word", "line"),
    GEMM_FAULTS,
    ids=[f"{row[2]}-{row[1][:24]}" for row in GEMM_FAULTS],
)
def test_a_fault_has_its_code_and_place(
    old: str, new: str, code: str, word: str, line: int
) -> None:
    assert old in GEMM
    found = faults(GEMM.replace(old, new, 1))
    assert any(item[0] == code and word in item[1] and item[2] == line for item in found), found


def test_values_that_nothing_uses() -> None:
    text = GEMM.replace("mma: [a, b.T], add: acc", "mma: [a, b.T]")
    parse_tile(text)  # acc is used by the bias
    text = text.replace("add: [acc, bias_tile]", "scale: acc, by: 2")
    assert {(code, headline) for code, headline, _, _ in faults(text)} == {
        ("TTN609", "nothing uses `bias_tile`")
    }


def test_all_faults_are_told_at_once_and_only_once() -> None:
    text = GEMM.replace("next: acc_next", "next: acc_nxt").replace("b.T", "bb.T")
    text = text.replace("function: gelu", "function: glue")
    found = faults(text)
    assert [item[0] for item in found] == ["TTN606", "TTN011", "TTN010"]


def test_a_program_is_refused_for_a_target_that_cannot_run_it() -> None:
    text = GEMM.replace("target: sm_90a", "target: [sm_90a, gfx942]").replace("bf16", "e4m3")
    assert parse_tile(text).target == "sm_90a"
    assert {item[0] for item in faults(text, "gfx942")} == {"TTN611"}
    with pytest.raises(ValueError, match="not for sm_100a"):
        parse_tile(text, target="sm_100a")


def test_fp8_operands_must_be_k_major() -> None:
    text = GEMM.replace("bf16", "e4m3").replace("B: {shape: [N, K]", "B: {shape: [K, N]")
    text = text.replace("B[n * columns, k * k_tile]\", tile: [columns, k_tile]",
                        "B[k * k_tile, n * columns]\", tile: [k_tile, columns]")  # fmt: skip
    found = faults(text.replace("b.T", "b"))
    assert [item[0] for item in found] == ["TTN611"] and "K-major" in found[0][1]
    parse_tile(text.replace("b.T", "b").replace("e4m3", "f16"))


@pytest.mark.parametrize(
    ("work", "loop", "view", "good"),
    [
        ("{m: M}", "{t: 4}", "m * 512 + t * 128, 0", True),
        ("{m: M}", "{t: 4}", "m * 511 + t * 128, 0", False),
        ("{m: M}", "{t: M}", "m * 512 + t * 128, 0", False),
        ("{m: M}", "{t: M}", "t * 128, m * 64", True),
        ("{m: M}", "{t: M}", "t * 128 + m * 300, m * 64 + t * 128", False),
        ("{m: M}", "{t: M}", "m * 128, 0", False),
        ("{m: M}", "{t: 1}", "m * 128, 0", True),
        ("{m: M, n: 1}", "{t: 1}", "128 - m * 128, 7", True),
    ],
)
def test_stores_of_different_work_items_lie_apart(
    work: str, loop: str, view: str, good: bool
) -> None:
    text = f"""\
titan: 1
tile: copy
target: sm_90a
sizes: {{M: any}}
tensors:
  X: {{shape: [M, 64], dtype: bf16}}
  Y: {{shape: [M, 64], dtype: bf16, output: true}}
work: {work}
loop: {loop}
groups: 2
body:
  - x: {{load: "X[m * 128, 0]", tile: [128, 64]}}
  - y: {{store: x, to: "Y[{view}]"}}
"""
    if good:
        parse_tile(text)
    else:
        assert [item[0] for item in faults(text)] == ["TTN612"]


def test_hostile_text_is_refused_with_a_place() -> None:
    deep = "(" * 300 + "1" + ")" * 300
    for text in (
        "", "titan: 1", "[]", "tile: x", GEMM.replace("K + k_tile - 1", deep),
        GEMM.replace("K + k_tile - 1", "K ** 99"), GEMM.replace("tile: gemm_bias_gelu", "tile: -"),
        GEMM.replace("  - a: {load", "  - 'a; x': {load"), GEMM.replace("sizes: {", "sizes: [{"),
        GEMM.replace("M: any", "M: 99999999999"), GEMM.replace("tile: [columns]", "tile: []"),
        GEMM.replace("M: any", "__import__('os'): any"), GEMM.replace("k_tile: 64", "k_tile: 1e9"),
    ):  # fmt: skip
        assert faults(text)


def test_rates_are_those_of_the_machines() -> None:
    from titan.target.load import machine

    assert {"sm_90a", "sm_100a", "gfx942"} <= set(known_targets())
    for name in known_targets():
        found = rates(name)
        assert found.name == name
        units = set(machine(name).units)
        used = {unit for rate in found.classes.values() for unit, _ in rate.uses}
        used |= {found.transfer.unit, found.matrix.unit, found.shared.unit}
        assert used <= units
    with pytest.raises(KeyError):
        rates("toy_hopper")


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("cycles_per_kib: 6", "cycles_per_kib: 0", "TTN017"),
        ("add: {uses: {FMA: 128}", "add: {uses: {FMA: 0}", "TTN009"),
        ("  tanh:", "  tan:", "TTN007"),
        ("result: registers", "result: memory", "TTN010"),
        ("cluster: 2", "clusters: 2", "TTN006"),
        ("bf16: 2048", "bf15: 2048", "TTN006"),
    ],
)
def test_faulty_rates_are_refused(tmp_path: Path, old: str, new: str, code: str) -> None:
    text = (root("backends") / "sm_90a" / "rates.yaml").read_text(encoding="utf-8")
    assert old in text
    path = tmp_path / "rates.yaml"
    path.write_text(text.replace(old, new), encoding="utf-8")
    with pytest.raises(TargetRefused) as caught:
        load_rates(path)
    assert code in {item.code for item in caught.value.diagnostics}


def test_verification_knows_tile_files_from_kernels() -> None:
    found = find_kernels([str(root("protocols"))])
    assert sorted(Path(path).stem for path in found.tiles) == [path.stem for path in LIBRARY]
    assert not any("tiles" in Path(path).parts for path in (*found.kernels, *found.loops))
    assert found.kernels and found.loops and not found.empty
    one = find_kernels([str(LIBRARY[0])] * 2)
    assert (one.tiles, one.kernels) == ([str(LIBRARY[0])], [])


@pytest.mark.parametrize("text", ["x", "[]", "", "titan: 1\n", "titan: 1\ntile: x\n", "\U0001f600"])
def test_a_file_without_a_target_says_what_it_lacks(text: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(TargetRefused) as refused:
        targets_of(path)
    assert refused.value.diagnostics


CAUSAL = (
    root("protocols") / "tiles" / "attention_forward_causal_persistent_sm_100a.yaml"
).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("descending: [i]", "descending: [j]", "no work coordinate"),
        ("descending: [i]", "descending: [i, i]", "named twice"),
        ("descending: [i]", "descending: i", "list"),
        ("descending: [i]", "descending: []", "at least"),
        ("descending: [i]", "descending: [h]\ncluster: 2", "in ascending order"),
    ],
)
def test_coordinates_that_cannot_descend_are_refused(old: str, new: str, told: str) -> None:
    assert CAUSAL.count(old) == 1
    with pytest.raises(TargetRefused) as refused:
        parse_tile(CAUSAL.replace(old, new))
    assert any(told in item.headline for item in refused.value.diagnostics)


def test_work_items_of_amd_ascend() -> None:
    text = (root("protocols") / "tiles" / "gemm_gfx942.yaml").read_text(encoding="utf-8")
    with pytest.raises(TargetRefused) as refused:
        parse_tile(f"{text}descending: [m]\n")
    assert [item.code for item in refused.value.diagnostics] == ["TTN009"]
