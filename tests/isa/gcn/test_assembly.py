"""Reading assembly: kernels, operands, places; all faults at once, and no crash on any text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.frontends.gcn.texts import RING, ring
from titan.foundation.source.span import Source
from titan.isa.gcn.assembly import parse_assembly
from titan.isa.gcn.module import Literal, Registers, SymbolOperand


def read(text):
    found, errors = parse_assembly(Source("k.s", text))
    return found, [(item.code, item.headline, item.span.start_line) for item in errors]


def test_a_kernel_with_its_arguments():
    found, errors = read(ring())
    assert errors == []
    (kernel,) = found.kernels
    assert (found.target, kernel.name, kernel.threads_max) == ("gfx950", "ring", 128)
    assert [(item.offset, item.size_bytes) for item in kernel.arguments] == [(0, 8), (8, 4)]
    assert kernel.settings["user_sgpr_kernarg_segment_ptr"] == 1
    first, last = found.instructions[kernel.start], found.instructions[kernel.end - 1]
    assert first.operands == (Registers("s", 4, 2), Registers("s", 0, 2), Literal(0))
    assert last.base == "s_endpgm"


def test_operands_and_options():
    text = (
        "\tbuffer_load_dword v42, s[8:11], 0 offen offset:16 lds\n"
        "\tv_add_u32_e32 v1, -4, v[2]\n"
        "\tv_fma_f32 v1, -v2, |v3|, 2.0\n"
        "\tglobal_load_dwordx4 a[0:3], v[4:5], off // a comment\n"
    )
    found, errors = read(RING.replace("\ts_endpgm\n", text + "\ts_endpgm\n"))
    assert errors == []
    *_, copy, add, multiply, load, _ = found.instructions
    assert copy.operands == (Registers("v", 42), Registers("s", 8, 4), Literal(0))
    assert copy.options == {"offen": "", "offset": "16", "lds": ""}
    assert add.operands == (Registers("v", 1), Literal(-4), Registers("v", 2))
    negative, absolute = Registers("v", 2, 1, True), Registers("v", 3, 1, False, True)
    assert multiply.operands == (Registers("v", 1), negative, absolute, Literal(0x40000000, True))
    assert load.operands == (Registers("a", 0, 4), Registers("v", 4, 2), SymbolOperand("off"))


def test_locations_with_inlined_calls():
    text = (
        '\t.file\t1 "/home" "k.py"\n\t.file 2 "lib.py"\n'
        "\t.loc\t2 43 13 is_stmt 1   ; lib.py:43:13 @[ k.py:8:14 ]\n\ts_nop 0\n"
    )
    found, _ = read(RING.replace("ring:\n", "ring:\n" + text))
    location = found.instructions[0].location
    assert [str(place) for place in location.chain()] == ["lib.py:43", "k.py:8"]


def test_all_faults_at_once_with_nearest_names():
    text = ring()
    text = text.replace("s_barrier", "s_barier").replace("ds_read_b128", "ds_read_b129")
    text = text.replace("s_cbranch_scc1 .Lend", "s_cbranch_scc1 .Lnowhere")
    found, errors = parse_assembly(Source("k.s", text))
    assert found is None
    assert [item.code for item in errors] == ["TTN010", "TTN010", "TTN010"]
    assert errors[0].helps == ("did you mean `s_barrier`?",)
    assert errors[0].span.start_column == 2
    _, errors = read(ring().replace("s_cbranch_scc1 .Lend", "s_cbranch_scc1 .Lnowhere"))
    assert [code for code, *_ in errors] == ["TTN011"]


def test_registers_that_do_not_exist():
    _, errors = read(ring().replace("v[8:11]", "v[254:257]").replace("s[4:5], 0x0", "s[5:4], 0x0"))
    assert {code for code, *_ in errors} == {"TTN001"}
    assert any("outside of the 256 registers" in text for _, text, _ in errors)


def test_a_file_without_a_kernel():
    assert read("\ts_endpgm\n") == (None, [("TTN007", "the file has no .amdhsa_kernel", 1)])


@given(st.integers(0, len(RING)), st.text(max_size=8), st.integers(0, 40))
def test_damaged_texts_are_read_or_refused(at, inserted, left_out):
    damaged = RING[:at] + inserted + RING[at + left_out :]
    found, errors = parse_assembly(Source("k.s", damaged))
    assert (found is None) == bool(errors)
    for item in errors:
        assert item.code.startswith("TTN") and item.span is not None
