"""The parser of PTX modules: what it reads, and that bad text is told with its place."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.isa.texts import NAMES, text_of
from titan.isa.ptx import module as m
from titan.isa.ptx.parse import parse


@pytest.fixture(scope="module")
def forms() -> m.Module:
    module, findings = parse(text_of("forms"), "forms.ptx", calls=True)
    assert module is not None, findings
    return module


def named(module: m.Module, name: str) -> m.Instruction:
    return next(i for i in module.instructions if i.name == name)


@pytest.mark.parametrize("name", NAMES)
def test_every_text_is_read(name):
    module, findings = parse(text_of(name), name)
    assert module is not None, findings


def test_header_and_pragmas(forms):
    assert (forms.version, forms.target) == ((8, 6), ("sm_90a", "texmode_independent"))
    assert forms.pragmas == ("nounroll",)


def test_variables(forms):
    by_name = {v.name: v for v in forms.variables}
    assert by_name["dynamic"].external
    assert by_name["dynamic"].size_bytes == 0
    assert by_name["table"].initial == bytes.fromhex("01000000100000003f000000ffffffff")
    assert by_name["pointer"].references == ((0, 8, m.Symbol("table", 8)),)
    assert by_name["half"].initial == bytes.fromhex("0000003f0000803e")
    assert by_name["flag"].size_bytes == 1


def test_parameters_have_offsets(forms):
    entry = forms.entries()[0]
    assert [(p.name, p.offset, p.size_bytes, p.alignment) for p in entry.parameters] == [
        ("map", 0, 128, 64),
        ("count", 128, 4, 4),
        ("data", 136, 8, 8),
    ]
    assert entry.performance == {"maxntid": (128, 1, 1), "minnctapersm": (1,)}
    helper = next(f for f in forms.functions if f.name == "helper")
    assert helper.declared
    assert helper.parameters[1].offset == 8


def test_what_the_compiler_of_tile_kernels_writes():
    """Hidden parameters, directives and sections as in modules of PTX 9.5 from NVIDIA's tile IR."""
    text = """
    .version 9.5
    .target sm_100a
    .address_size 64
    .visible .entry tiles(
        .param .u64 .ptr .global .align 1 data,
        .hidden	.param .align 64 .b8 map[128]
    )
    .reqntid 256
    .reqnctapercluster 2
    .blocksareclusters
    .language 7
    {
        .reg .b32 %r<2>;
        .loc 1 3 0
        .loc_intermediate 2 1 2
        mov.u32 %r1, %tid.x;
        ret;
    }
        .file 1 "tiles.py"
    .nv_intermediate_source_section {
      .code_block {
        .ir_name: "tile ir"
        .source_begin
    entry @tiles(%arg0: tile<ptr<f16>>) { { "one more that opens
    .source_end
      }
    }
    """
    module, findings = parse(text, "tiles.ptx")
    assert module is not None, findings
    (entry,) = module.entries()
    assert [(p.name, p.offset, p.size_bytes) for p in entry.parameters] == [
        ("data", 0, 8), ("map", 64, 128),
    ]  # fmt: skip
    assert entry.performance == {
        "reqntid": (256,), "reqnctapercluster": (2,), "blocksareclusters": (), "language": (7,),
    }  # fmt: skip
    (line,) = {i.location.line for i in module.instructions if i.location is not None}
    assert line == 3


def test_registers_of_inner_scopes_are_their_own(forms):
    entry = forms.entries()[0]
    outer = named(forms, "ld.param.u32").operands[0]
    inner = next(
        i for i in forms.instructions if i.opcode == "mov" and i.operands[1] == m.Immediate(-5)
    ).operands[0]
    assert isinstance(outer, m.PtxRegister)
    assert isinstance(inner, m.PtxRegister)
    assert outer != inner
    assert entry.registers[outer.number] == entry.registers[inner.number]


def test_labels_of_inner_scopes_are_their_own(forms):
    spins = [i for i in forms.instructions if i.opcode == "bra"][1:]
    targets = [i.operands[0] for i in spins]
    assert all(isinstance(t, m.PtxTarget) for t in targets)
    indices = [forms.instructions.index(i) for i in spins]
    assert [t.instruction for t in targets if isinstance(t, m.PtxTarget)] == [
        indices[0] - 1,
        indices[1],
    ]


def test_tables_of_branches(forms):
    branch = named(forms, "brx.idx")
    table = branch.operands[1]
    assert isinstance(table, m.Targets)
    names = [forms.instructions[i].opcode for i in table.instructions]
    assert names == ["and", "add", "ret"]


def test_operands(forms):
    registers = forms.entries()[0].registers

    def numbers(*names: str) -> tuple[m.Operand, ...]:
        by_name = {r.name: number for number, r in reversed(list(enumerate(registers)))}
        return tuple(m.PtxRegister(by_name[name]) for name in names)

    assert named(forms, "mov.b64").operands[1] == m.Vector(numbers("%r0", "%r1"))
    assert named(forms, "mov.f64").operands[1] == m.Immediate(0x3FF8 << 48, "f64")
    setp = named(forms, "setp.lt.u32")
    assert isinstance(setp.operands[0], m.Pair)
    load = named(forms, "ld.shared.v2.b32")
    assert isinstance(load.operands[0], m.Vector)
    assert load.operands[0].items[1] == m.Sink()
    assert load.operands[1] == m.Address(m.Symbol("dynamic"), 16)
    call = named(forms, "call.uni")
    assert call.operands[1] == m.Symbol("twice")
    copy = next(i for i in forms.instructions if i.opcode == "cp")
    assert isinstance(copy.operands[1], m.Address)
    assert copy.operands[1].coordinates == (*numbers("%r0"), m.Immediate(7))
    assert named(forms, "and.b32").operands[2] == m.Immediate(32)


def test_locations_have_the_calls_through_which_they_were_inlined(forms):
    first = named(forms, "mov.u32").location
    assert first is not None
    assert str(first) == "kernel.py:10"
    inner = named(forms, "mov.b64").location
    assert inner is not None
    assert [str(place) for place in inner.chain()] == ["kernel.py:20", "kernel.py:10"]


def test_lines_and_columns(forms):
    lines = text_of("forms").split("\n")
    for instruction in forms.instructions:
        text = lines[instruction.line - 1][instruction.column - 1 :]
        assert text.startswith(("@", instruction.opcode))


def body(text: str) -> str:
    return f".version 8.6\n.target sm_90a\n.entry k()\n{{\n.reg .b32 %r<4>;\n{text}\n}}\n"


@pytest.mark.parametrize(
    ("text", "code", "place", "words"),
    [
        ("mov.u32 %r1, %r9;", "TTN011", (6, 14), "`%r9` is not declared"),
        ("bra GONE;", "TTN011", (6, 5), "`GONE` is not declared"),
        ("mov.u32 %r1, 1\nret;", "TTN001", (6, 14), "is not understood"),
        ("wgmmma.fence;", "TTN010", (6, 1), "unknown instruction `wgmmma.fence`"),
        ("add.s32 %r1, 08, %r2;", "TTN001", (6, 14), "the operand `08` is not understood"),
        ("ld.shared.b32 %r1, [nothing];", "TTN011", (6, 21), "`nothing` is not declared"),
        ("A: A: ret;", "TTN013", (6, 4), "the label `A` is defined twice"),
        (".reg .b33 x;", "TTN001", (6, 5), "a type of registers is missing"),
        ("@ bra X;", "TTN011", (6, 3), "is not declared"),
        ("st.global.b32 [gone], %r1;", "TTN011", (6, 16), "`gone` is not declared"),
        ("/* no end", "TTN001", (6, 1), "a comment does not end"),
    ],
)
def test_a_fault_is_told_with_its_place(text, code, place, words):
    module, findings = parse(body(text), "bad.ptx")
    assert module is None
    found = [
        f
        for f in findings
        if f.span is not None and (f.span.start_line, f.span.start_column) == place
    ]
    assert [f.code for f in found] == [code], findings
    assert words in found[0].headline


def test_all_unknown_instructions_are_told_at_once():
    text = body("\n".join(f"nonsense{i}.u32 %r1;" for i in range(5)))
    _, findings = parse(text, "bad.ptx")
    assert [f.span.start_line for f in findings if f.span is not None] == [6, 7, 8, 9, 10]
    assert {f.code for f in findings} == {"TTN010"}


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_damaged_text_gets_findings_and_never_an_error(data):
    text = text_of(data.draw(st.sampled_from(NAMES)))
    at = data.draw(st.integers(0, len(text)))
    kind = data.draw(st.sampled_from(["cut", "drop", "insert"]))
    if kind == "cut":
        text = text[:at]
    elif kind == "drop":
        text = text[:at] + text[at + data.draw(st.integers(1, 30)) :]
    else:
        alphabet = st.sampled_from('{}[]();,:.@!%|<>"/*\n 019afx_-+$\0é')
        text = text[:at] + data.draw(st.text(alphabet, max_size=8)) + text[at:]
    module, findings = parse(text, "damaged.ptx")
    assert (module is None) == bool(findings)
    assert all(finding.span is not None for finding in findings)


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=200))
def test_any_text_is_answered(text):
    module, findings = parse(text, "any.ptx")
    assert (module is None) == bool(findings)


def test_deep_nesting_and_large_sizes_end():
    for text in (
        body("{" * 10_000),
        body("mov.b32 %r1, " + "{" * 5_000 + ";"),
        body("mov.b32 %r1, " + "!" * 5_000 + "%r1;"),
        body(".shared .b8 x[99999999999999999999];"),
        body(".reg .b32 %q<99999999999>;"),
    ):
        module, findings = parse(text, "hostile.ptx")
        assert module is None
        assert findings


def test_a_large_module_is_read_in_linear_work():
    many = "\n".join(f"add.s32 %r1, %r2, {i};" for i in range(20_000))
    module, _ = parse(body(many), "large.ptx")
    assert module is not None
    assert len(module.instructions) == 20_001  # and the end of the body, which returns
