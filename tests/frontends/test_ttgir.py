"""TTGIR: reading, numbers, clean samples, every synchronising operation left out, bad input.

The samples in ttgir/ are what Triton 3.9 made of triton_kernels.py.
"""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.frontends.ttgir_samples import changed, code_of, sample, verified, without
from titan.cli.main import run
from titan.foundation.source.span import Source
from titan.foundation.verdict import Verdict
from titan.frontends.ttgir import integers
from titan.frontends.ttgir.parse import parse_ttgir
from titan.frontends.ttgir.samples import dependent, largest, samples
from titan.report.findings import parameters_text
from titan.sync.expression import Binary, Constant, Name, evaluate, parse_expression

RING = sample("ring_gemm_fault0")


SAMPLES = [
    "ring_gemm_fault0", "pipelined_gemm_sm100", "pipelined_gemm_sm90_specialised",
    pytest.param("attention_sm100_specialised", marks=pytest.mark.heavy),
]  # fmt: skip


@pytest.mark.parametrize("name", SAMPLES)
def test_samples_are_verified_for_any_number(name):
    finding = verified(sample(name))
    assert finding.verdict is Verdict.VERIFIED, finding.diagnostics
    assert [values for _, values in finding.coverage.parameters] == [None]


@pytest.mark.parametrize(
    ("pattern", "number", "codes"),
    [
        ("ttng.init_barrier", 0, {"TTN208"}),
        ("ttng.wait_barrier", 0, {"TTN203"}),  # the consumer's
        ("ttng.wait_barrier", 1, {"TTN206", "TTN202", "TTN204"}),  # the producer's
        ("ttng.barrier_expect", 0, {"TTN205", "TTN203", "TTN207"}),
        ("ttng.async_tma_copy_global_to_local", 0, {"TTN205"}),
        ("ttng.arrive_barrier", 0, {"TTN205", "TTN211"}),
        ("ttng.async_tma_store_wait", 0, {"TTN211"}),
    ],
)
def test_an_operation_left_out_is_refuted(pattern, number, codes):
    assert code_of(verified(without(pattern, RING, number))) in codes


def test_a_product_that_is_not_waited_for():
    text = without("warp_group_dot_wait", re.sub(r"yield %total_\d+", "yield %total", RING))
    text = re.sub(r"scf.yield %total\b", "scf.yield %total_7", text)
    assert code_of(verified(text)) in ("TTN202", "TTN211")


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        (", 24576,", ", 12288,", "TTN207"),
        ("ttng.arrive_barrier %(\\w+), 1,", "ttng.arrive_barrier %\\1, 2,", "TTN206"),
        ("arith.xori %(\\w+), %\\w+", "arith.xori %\\1, %c0_i32_5", "TTN205"),
    ],
)
def test_an_operation_that_is_wrong_is_refuted(old, new, code):
    text, count = re.subn(old, new, RING)
    assert count == 1
    assert code_of(verified(text)) == code


def test_a_counterexample_names_the_source():
    finding = verified(without("ttng.arrive_barrier", RING))
    labels = [getattr(one, "label", "") for one in finding.trace.fault.operations]
    assert any(label.startswith("triton_kernels.py:") for label in labels)


def test_the_source_is_not_needed():
    assert verified(re.sub(r" loc\(.*\)$", "", RING, flags=re.MULTILINE)).exit_code == 0


def test_attributes_of_arguments_are_not_their_type():
    text = RING.replace(': i32 loc("', ': i32 {tt.divisibility = 16 : i32} loc("')
    assert text.count("tt.divisibility") > 1
    finding = verified(text)
    assert finding.verdict is Verdict.VERIFIED, finding.diagnostics
    assert finding.coverage.parameters == (("k_per_64", None),)


def test_policies_and_the_command(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "k.ttgir"
    path.write_text(RING, encoding="utf-8")
    assert run(["verify", str(path), "--policy", "exit_in_flight=allow"]) == 0
    output = " ".join(capsys.readouterr().out.split())
    assert "any k_per_64, 0 included" in output and "exit_in_flight allow" in output
    assert run(["verify", str(path), "--policy", "parity=refuse"]) == 2


# ------------------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda t: "", "the file holds no tt.func"),
        (lambda t: t[: t.index("scf.for")], "the text ends inside of a region"),
        (lambda t: t.replace("ttng.arrive_barrier", "ttng.arive_barrier"), "is not known"),
        (lambda t: t.replace('"cuda:90"', '"cuda:70"'), "the target cuda:70 is none of"),
        (lambda t: t.replace("ttng.init_barrier %", "%%% %", 1), "does not begin an operation"),
        (lambda t: t.replace("%c3_i32 = arith.constant 3", "%c3_i32 = arith.constant x"), "index"),
        (lambda t: t.replace("scf.for", "scf.while", 1), "a loop whose condition"),
        (lambda t: t.replace('num-ctas" = 1', 'num-ctas" = 2'), "how the CTAs share it"),
        (lambda t: t.replace('num-ctas" = 1', 'num-ctas" = 1000000000'), "and not 1000000000"),
        (lambda t: re.sub(r"<3x(\d+x\d+)", "<1000000000x\\1", t), "more than 256 stages"),
        (lambda t: re.sub(r"%total = scf.for", "%total:99999999 = scf.for", t), "1024 results"),
        (lambda t: t.replace("tt.return", "tt.call @f() : () -> ()\n    tt.return"), "is a call"),
        (lambda t: t.replace("{inputPrecision", "{{inputPrecision"), "is not closed"),
    ],
)
def test_bad_text_is_refused_with_its_place(change, said):
    finding = verified(change(RING))
    assert finding.verdict is Verdict.REFUSED and finding.exit_code == 2
    assert any(said in item.headline for item in finding.diagnostics), finding.diagnostics
    assert all(item.span is not None for item in finding.diagnostics)


TILE = "!ttg.memdesc<64x64xf16, #shared, #smem, mutable>"
SWAPPED = f"""
module attributes {{"ttg.num-warps" = 4 : i32, ttg.target = "cuda:90"}} {{
  tt.func public @swap(%n: i32) {{
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %a = ttg.local_alloc : () -> {TILE}
    %b = ttg.local_alloc : () -> {TILE}
    %c = arith.constant dense<0.0> : tensor<64x64xf16, #b>
    ttg.local_store %c, %a : tensor<64x64xf16, #b> -> {TILE}
    %r:2 = scf.for %t = %c0 to %n step %c1 iter_args(%x = %a, %y = %b) -> ({TILE}, {TILE})  : i32 {{
      %v = ttg.local_load %x : {TILE} -> tensor<64x64xf16, #b>
      scf.yield %y, %x : {TILE}, {TILE}
    }}
    tt.return
  }}
}}
"""


def test_allocations_that_a_loop_swaps_are_not_taken_for_one():
    finding = verified(SWAPPED)
    assert finding.verdict is Verdict.REFUSED
    assert "a loop carries views of different allocations" in finding.diagnostics[0].headline
    same = SWAPPED.replace("scf.yield %y, %x", "scf.yield %x, %y")
    assert verified(same).verdict is Verdict.VERIFIED


FILLED = f"""
module attributes {{"ttg.num-warps" = 4 : i32, ttg.target = "cuda:90"}} {{
  tt.func public @filled(%n: i32) {{
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %zero = arith.constant dense<0.0> : tensor<64x64xf16, #b>
    %a = ttg.local_alloc : () -> {TILE}
    ttg.local_store %zero, %a : tensor<64x64xf16, #b> -> {TILE}
    scf.for %t = %c0 to %n step %c1  : i32 {{
      %v = ttg.local_load %a : {TILE} -> tensor<64x64xf16, #b>
    }}
    tt.return
  }}
}}
"""


def test_memory_that_nothing_has_written():
    assert verified(FILLED).verdict is Verdict.VERIFIED
    finding = verified(without("local_store", FILLED))
    assert finding.verdict is Verdict.UNDECIDED and finding.exit_code == 3
    assert [item.code for item in finding.diagnostics] == ["TTN222"]


@pytest.mark.parametrize(
    ("use", "verdict"), [("%true", Verdict.UNDECIDED), ("%false", Verdict.VERIFIED)]
)
def test_a_product_that_adds_to_what_nothing_has_written(use, verdict):
    text = sample("pipelined_gemm_sm100")
    text = re.sub(r"(tc_gen5_mma %total_13, %total_15, %total), %\w+,", f"\\1, {use},", text)
    assert verified(text).verdict is Verdict.VERIFIED  # the sum begins with zeros
    assert verified(without("tmem_store %cst", text)).verdict is verdict


@pytest.mark.parametrize(
    ("name", "use", "store"),
    [
        ("persistent_inner_sm100", "%arg31", "tmem_store %cst, %acc_6"),
        ("persistent_flattened_sm100", "%arg33", "tmem_store %cst_0, %acc_10"),
        ("pipelined_gemm_two_ctas", "%arg30", "tmem_store %cst, %total_7"),
    ],
)
def test_a_product_that_begins_by_adding_to_what_nothing_has_written(name, use, store):
    """A loop carries whether the product adds, from `true` on; from `false` on it begins anew."""
    text = sample(name)
    before = text[: text.index(f"{use} = %false")]
    true = re.findall(r"(%true\w*) = arith.constant true", before)[-1]
    adding = text.replace(f"{use} = %false", f"{use} = {true}", 1)
    assert adding != text
    assert verified(without(store, text)).verdict is Verdict.VERIFIED
    assert verified(adding).verdict is Verdict.VERIFIED  # the sum begins with zeros
    finding = verified(without(store, adding))
    assert finding.verdict is Verdict.UNDECIDED
    assert "TTN222" in [item.code for item in finding.diagnostics]


@pytest.mark.parametrize(
    ("change", "code", "said"),
    [
        (lambda t: without("%total_6 = ttg.memdesc_index", t), "TTN011", "nothing defines"),
        (lambda t: t.replace("%total_6 =", "%total_66 ="), "TTN011", "%total_6`"),
        (lambda t: re.sub(r"(%total_6 = )ttg.memdesc_index.*", r"\1tt.load %k : T", t), "TTN010",
         "memory that the analysis does not track"),
        (lambda t: t.replace(" {pendings = 0 : i32}", " {pendings = 0 : i32, late}"), "TTN010",
         "attribute `late`"),
        (lambda t: t.replace("%full = ttg.local_alloc :", "%full = ttg.local_alloc {far = 1} :"),
         "TTN010", "attribute `far`"),
    ],
)  # fmt: skip
def test_what_is_left_open_is_refused(change, code, said):
    finding = verified(change(RING))
    assert finding.verdict is Verdict.REFUSED
    assert any(item.code == code and said in item.headline for item in finding.diagnostics)


def test_attributes_of_passes_mean_nothing():
    text = RING.replace(" {pendings = 0 : i32}", " {pendings = 0 : i32, loop.stage = 2 : i32}")
    assert verified(text).verdict is Verdict.VERIFIED


def test_all_unknown_operations_are_told_at_once():
    text = RING.replace("ttng.wait_barrier", "ttng.wait_barier")
    finding = verified(text)
    assert len(finding.diagnostics) == 2
    assert all("ttng.wait_barrier" in " ".join(item.helps) for item in finding.diagnostics)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, len(RING) - 1), st.integers(1, 40), st.sampled_from(["", "{", "%", "}\n"]))
def test_damaged_text_gives_a_verdict_or_a_refusal(at, size, new):
    text = RING[:at] + new + RING[at + size :]
    module, errors = parse_ttgir(Source("k.ttgir", text))
    assert (module is None) == bool(errors)
    for function in module.functions if module is not None else ():
        assert function.name


# -------------------------------------------------------------------------------- numbers

X = Name("x")


@settings(max_examples=200, deadline=None)
@given(
    st.integers(-300, 300), st.integers(1, 5), st.integers(1, 70), st.integers(0, 500),
    st.sampled_from(["<", "<=", ">", ">=", "==", "!="]),
)  # fmt: skip
def test_normal_forms_keep_their_value(constant, factor, divisor, x, operator):
    left = integers.add(integers.multiply(Constant(factor), X), Constant(constant))
    value = factor * x + constant
    where = {"x": x, "k": 64 * x + constant}
    assert evaluate(left, where) == value
    assert evaluate(integers.floor_divide(left, divisor), where) == value // divisor
    assert evaluate(integers.remainder(left, divisor), where) == value % divisor
    assert evaluate(integers.ceiling_divide(left, divisor), where) == -(-value // divisor)
    truth = integers.compare(operator, left, Name("k"), integers.holds_only(frozenset("k")))
    plain = Binary(operator, left, Name("k"))
    assert evaluate(truth, where) == evaluate(plain, where)


def test_equal_trip_counts_have_one_form():
    k = Name("k")
    first = integers.ceiling_divide(k, 64)
    second = integers.floor_divide(integers.add(k, Constant(191)), 64)
    assert integers.subtract(second, first) == Constant(2)
    quotient = integers.floor_divide(X, 3)
    rest = integers.subtract(X, integers.multiply(quotient, Constant(3)))
    assert rest == Binary("%", X, Constant(3))


def test_sizes_that_belong_together():
    sizes = [("k", Name("k")), ("tiles", parse_expression("(k + 63) // 64"))]
    assert dependent(sizes)
    assert not dependent([sizes[1], ("m", Name("m"))])
    for chosen in samples(sizes, {}):
        assert chosen["tiles"] == (chosen["k"] + 63) // 64


def test_a_size_that_no_loop_counts_to_may_be_large():
    """A guard compares `k`, of which the loop has one trip for 64: at and beside each multiple."""
    sizes = [("k", Name("k")), ("tiles", parse_expression("(k + 63) // 64"))]
    chosen = [one["k"] for one in samples(sizes, {}, {"tiles"})]
    assert {0, 1, 63, 64, 65, 127, 128, 129, 191, 192, 193} <= set(chosen)
    assert max(chosen) > 4 * 64
    assert largest(sizes, 6, {"tiles"}) == {"k": 321, "tiles": 6}
    assert largest(sizes, 6)["k"] <= 6


@pytest.mark.parametrize("bound", ["c64_i32", "c128_i32"])
def test_a_guard_that_is_off_by_one_trip_is_refuted(bound):
    """With `k` a multiple of 64, one copy too many: of the sizes tried only 0 and 1 had been."""
    text = sample("pipelined_gemm_sm100")
    wrong = changed(f"cmpi sgt, %k, %{bound}", f"cmpi sge, %k, %{bound}", text)
    assert verified(text).verdict is Verdict.VERIFIED
    assert verified(wrong).verdict is Verdict.REFUTED


def test_samples_have_several_trips_of_several_tiles():
    """A persistent kernel, of which a CTA has `whole` tiles or one more: small sums of sizes give
    few trips or few tiles.
    """
    tiles = "(m + 127) // 128 * ((n + 255) // 256) * b"
    sizes = [
        ("trips", parse_expression("(k + 63) // 64")),
        ("whole", parse_expression(f"{tiles} // 96")),
        ("rest", parse_expression(f"{tiles} % 96")),
        ("program_id_x", Name("program_id_x")),
    ]
    chosen = samples(sizes, {})
    assert len({tuple(one.values()) for one in chosen}) == len(chosen) == 24
    for name, other in (("trips", "whole"), ("trips", "rest")):
        assert {0, 1, 2, 3} <= {one[name] for one in chosen}
        assert any(one[name] >= 2 and one[other] >= 2 for one in chosen)
        assert any(one[name] >= 2 and one[other] == 0 for one in chosen)
    assert dict.fromkeys(chosen[0], 0) in chosen


def test_scope_names_the_combinations_of_sizes():
    """The scope names how many combinations of the listed values were tried: not all."""
    text = sample("persistent_flattened_sm100")
    finding = verified(text, states_max=100)  # too few for any numbers
    assert finding.verdict is Verdict.VERIFIED
    values = [values for _, values in finding.coverage.parameters]
    assert all(values)
    found = re.search(r"; (\d+) combinations of these values$", parameters_text(finding.coverage))
    assert found and 0 < int(found[1]) < math.prod(map(len, values))
    assert not verified(text).coverage.combinations


# ------------------------------------------------------------------------ between functions


@pytest.mark.parametrize(
    "line",
    ["hello", "<<<<<<< HEAD", '"\\ud800"', "ttng.wait_barrier %x, %c0", "}", "tt.fun @other() {",
     "tt.func @other(", "modul {", "---"],
)  # fmt: skip
@pytest.mark.parametrize("place", ["behind", "in front", "in the module"])
def test_what_stands_in_no_function_is_not_passed_over(line, place):
    text, number = f"{FILLED.rstrip()}\n{line}\n", FILLED.rstrip().count("\n") + 2
    if place == "in front":
        text, number = f"{line}\n{FILLED}", 1
    if place == "in the module":
        head, _, last = FILLED.rstrip().rpartition("\n")
        text, number = f"{head}\n{line}\n{last}\n", FILLED.rstrip().count("\n") + 1
        number += line == "}"  # it ends the module, and the next one is too many
    module, errors = parse_ttgir(Source("k.ttgir", text))
    assert module is None
    assert [item.span.start_line for item in errors] == [number]


@pytest.mark.parametrize(
    "line",
    ["", "  ", "// a comment", "#loc9 = loc(unknown)", "#other = #ttg.shared_memory",
     "module {\n}", "module attributes {ttg.x = 1 : i32} {\n} loc(#loc)"],
)  # fmt: skip
def test_modules_names_and_comments_may_stand_between_functions(line):
    for text in (f"{FILLED}\n{line}\n", f"{line}\n{FILLED}"):
        module, errors = parse_ttgir(Source("k.ttgir", text))
        assert errors == [] and module is not None and len(module.functions) == 1


def test_a_module_is_closed():
    """Where the file ends early, functions that are called may be missing."""
    cut = FILLED.rstrip().removesuffix("}")
    module, errors = parse_ttgir(Source("k.ttgir", cut))
    assert module is None
    assert [item.headline for item in errors] == ["the module is not closed"]
