"""The native core and the Python machine compute the same bits, instruction by instruction.

Every form is executed on random numbers, special ones among them, by all lanes and by some; a
form stands here as its text with the types of its operands. `.approx` forms may differ by a unit in
the last place where the one engine's function is rounded the other way.
"""

from __future__ import annotations

import numpy as np
import pytest

from titan.isa.numbers.forms import TESTS
from titan.isa.numbers.native import core
from titan.isa.numbers.run import compute
from titan.isa.ptx.parse import parse
from titan.isa.simt.launch import Allocation, Launch, LaunchParameter, Options
from titan.isa.simt.outcome import Ending

pytestmark = pytest.mark.skipif(core() is None, reason="the native core is not built")

HEAD = ".version 8.8\n.target sm_100a\n.address_size 64\n"
LANES, ROWS = 32, 2
# Places of sources and results in memory; the lanes have them 8 bytes apart.
SOURCES_AT, MASK_AT, RESULT_AT, RESULT_BYTES = 0x70000000, 0x70010000, 0x70020000, 1 << 16
SPECIALS = {
    "f32": [0, 1 << 31, 0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000, 0x7FC00000, 1, 0x80000001,
            0x007FFFFF, 0x00800000, 0x7F7FFFFF, 0x4B000001, 0x3EFFFFFF, 0x42FE0000, 0xC3160000],
    "h": [0, 0x8000, 0x3C00, 0x7C00, 0xFC00, 0x7E00, 1, 0x03FF, 0x0400, 0x7BFF, 0x3F80, 0x7F80,
          0xFF80, 0x7FC0, 0x0080, 0x7F7F],
    "b": [0, 1, 2, 31, 32, 33, 63, 64, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFF, 0x8000, 255,
          0x7FFFFFFFFFFFFFFF, 0x8000000000000000],
}  # fmt: skip
REGISTERS = {"16": "%h", "32": "%r", "64": "%d", "f": "%f", "g": "%g", "p": "%p", "q": "%p0|%p"}

# text; letters of the result and the sources: 16, 32, 64 bits, f (f32), g (f64), p (predicate),
# q (two of them)
INTEGERS = [
    *[f"{op}.{type_} {type_[1:]} {type_[1:]} {type_[1:]}"
      for op in ("add", "sub", "mul.lo", "mul.hi", "div", "rem", "min", "max")
      for type_ in ("s16", "u16", "s32", "u32", "s64", "u64")],
    *[f"{op}.b{bits} {bits} {bits} {bits}" for op in ("and", "or", "xor") for bits in (16, 32, 64)],
    *[f"{op}.{kind}{bits} {bits} {bits} 32"
      for op, kind in (("shl", "b"), ("shr", "u"), ("shr", "s")) for bits in (16, 32, 64)],
    *[f"mul.wide.{kind}{bits} {2 * bits} {bits} {bits}" for kind in "su" for bits in (16, 32)],
    *[f"mad.wide.{kind}{bits} {2 * bits} {bits} {bits} {2 * bits}"
      for kind in "su" for bits in (16, 32)],
    *[f"mad.lo.{type_} {type_[1:]} {type_[1:]} {type_[1:]} {type_[1:]}"
      for type_ in ("s32", "u32", "s64")],
    "neg.s32 32 32", "neg.s64 64 64", "abs.s32 32 32", "not.b32 32 32", "not.b64 64 64",
    "cnot.b32 32 32", "brev.b32 32 32", "brev.b64 64 64", "clz.b32 32 32", "clz.b64 32 64",
    "popc.b32 32 32", "popc.b64 32 64", "bfind.u32 32 32", "bfind.s32 32 32", "bfe.u32 32 32 32 32",
    "bfe.s32 32 32 32 32", "bfi.b32 32 32 32 32 32", "lop3.b32 32 32 32 32 =0x96",
    "lop3.b32 32 32 32 32 =0xE8", "prmt.b32 32 32 32 32", "sad.u32 32 32 32 32",
    "shf.l.wrap.b32 32 32 32 32", "shf.r.clamp.b32 32 32 32 32", "mad.hi.s32 32 32 32 32",
    *[f"cvt.{to}.{at} {to[1:]} {at[1:]}" for to in ("s16", "u16", "s32", "u32", "s64", "u64")
      for at in ("s16", "u16", "s32", "u32", "s64", "u64")],
    "cvt.sat.s16.s32 16 32", "cvt.sat.u16.s32 16 32",
    *[f"setp.{word}.{type_} p {type_[1:]} {type_[1:]}" for word in ("eq", "ne", "lt", "le", "gt",
      "ge") for type_ in ("s32", "u32", "s64", "u64")],
    "setp.hi.u32 p 32 32", "setp.ls.u32 p 32 32", "selp.b32 32 32 32 p", "selp.b64 64 64 64 p",
    *[f"{op}.{type_} 32 32 32" for op in ("add", "min", "max") for type_ in ("u16x2", "s16x2")],
    "min.relu.s32 32 32 32", "max.relu.s32 32 32 32", "max.relu.s16x2 32 32 32",
    *[f"dp{n}a{half}.{a}.{b} 32 32 32 32" for n, half in ((4, ""), (2, ".lo"), (2, ".hi"))
      for a in ("u32", "s32") for b in ("u32", "s32")],
    "cvt.pack.sat.s16.s32 32 32 32", "cvt.pack.sat.u16.s32 32 32 32",
    *[f"cvt.pack.sat.{to}.s32.b32 32 32 32 32" for to in ("u8", "s8", "u4", "s4", "u2", "s2")],
    "and.pred p p p", "or.pred p p p", "xor.pred p p p", "not.pred p p",
]  # fmt: skip
FLOATS = [
    *[f"{op}{flush}.f32 f f f" for op in ("add", "sub", "mul", "min", "max")
      for flush in ("", ".ftz")],
    *[f"{op}.{mode}.f32 f f f" for op in ("add", "sub", "mul", "div")
      for mode in ("rz", "rm", "rp")],
    "fma.rn.f32 f f f f", "fma.rn.ftz.f32 f f f f", "fma.rz.f32 f f f f", "fma.rm.f32 f f f f",
    "fma.rn.sat.f32 f f f f", "add.sat.f32 f f f", "max.NaN.f32 f f f", "min.NaN.f32 f f f",
    "neg.f32 f f", "neg.ftz.f32 f f", "abs.f32 f f", "copysign.f32 f f f", "div.rn.f32 f f f",
    "div.full.f32 f f f", "div.approx.ftz.f32 f f f", "rcp.rn.f32 f f", "rcp.approx.ftz.f32 f f",
    "sqrt.rn.f32 f f", "sqrt.rz.f32 f f", "max.f32 f f f f", "min.abs.f32 f f f f",
    *[f"{op}.xorsign.abs.f32 f f f" for op in ("min", "max.NaN", "max.ftz")],
    "min.xorsign.abs.bf16 16 16 16", "max.NaN.xorsign.abs.f16x2 32 32 32",
    "add.f64 g g g", "mul.f64 g g g", "fma.rn.f64 g g g g", "div.rn.f64 g g g", "min.f64 g g g",
    *[f"setp.{word}.f32 p f f" for word in ("eq", "ne", "lt", "le", "gt", "ge", "equ", "neu",
      "ltu", "leu", "gtu", "geu", "num", "nan")],
    *[f"{op}.{form} 16 16 16" for form in ("f16", "bf16") for op in ("min", "max", "min.NaN")],
    *[f"{op}.{form} 32 32 32" for form in ("f16x2", "bf16x2") for op in ("min", "max")],
    "add.f16 16 16 16", "sub.f16 16 16 16", "mul.f16 16 16 16", "fma.rn.f16 16 16 16 16",
    "fma.rn.relu.f16 16 16 16 16", "add.f16x2 32 32 32", "mul.f16x2 32 32 32",
    "fma.rn.f16x2 32 32 32 32", "fma.rn.bf16x2 32 32 32 32", "add.rn.bf16x2 32 32 32",
    "mul.rn.bf16x2 32 32 32", "sub.rn.bf16x2 32 32 32", "fma.rn.bf16 16 16 16 16",
    "neg.bf16x2 32 32", "abs.f16x2 32 32", "add.rn.f32x2 64 64 64", "mul.rn.f32x2 64 64 64",
    "fma.rn.f32x2 64 64 64 64", "sub.rn.f32.f16 f 16 f", "add.rn.f32.bf16 f 16 f",
    "fma.rn.f32.bf16 f 16 16 f", "setp.lt.f16 p 16 16", "setp.geu.bf16 p 16 16",
    "setp.lt.f16x2 q 32 32", "setp.geu.bf16x2 q 32 32", "setp.ne.bf16x2 q 32 32",
    "selp.f32 f f f p",
    *[f"testp.{word}.{form}" for word in TESTS for form in ("f32 p f", "f64 p g")],
]  # fmt: skip
CONVERSIONS = [
    *[f"cvt.{mode}.{to}.f32 {16} f" for to in ("f16", "bf16") for mode in ("rn", "rz")],
    *[f"cvt.{mode}.{to}.f32 32 f f" for to in ("f16x2", "bf16x2") for mode in ("rn", "rz")],
    "cvt.rn.relu.f16x2.f32 32 f f", "cvt.rn.relu.bf16x2.f32 32 f f", "cvt.f32.f16 f 16",
    "cvt.f32.bf16 f 16", "cvt.rn.satfinite.e4m3x2.f32 16 f f", "cvt.rn.satfinite.e5m2x2.f32 16 f f",
    "cvt.rn.f16x2.e4m3x2 32 16", "cvt.rn.f16x2.e5m2x2 32 16", "cvt.rn.ftz.f16.f32 16 f",
    "cvt.f64.f32 g f", "cvt.rn.f32.f64 f g", "cvt.rz.f32.f64 f g", "cvt.rni.f32.f32 f f",
    "cvt.rmi.f32.f32 f f", "cvt.rpi.f32.f32 f f", "cvt.rzi.f32.f32 f f", "cvt.sat.f32.f32 f f",
    *[f"cvt.{mode}.{to}.f32 {to[1:]} f" for to in ("s32", "u32", "s64", "u16")
      for mode in ("rni", "rzi", "rmi", "rpi")],
    *[f"cvt.{mode}.f32.{at} f {at[1:]}" for at in ("s32", "u32", "s64", "u64", "u16")
      for mode in ("rn", "rz", "rm")],
    "cvt.rn.f16.s32 16 32", "cvt.rn.f64.s32 g 32", "cvt.rna.tf32.f32 32 f",
]  # fmt: skip
NEARLY = [
    "ex2.approx.f32 f f", "ex2.approx.ftz.f32 f f", "lg2.approx.f32 f f", "rsqrt.approx.f32 f f",
    "sqrt.approx.f32 f f", "sin.approx.f32 f f", "cos.approx.f32 f f", "tanh.approx.f32 f f",
    "ex2.approx.f16 16 16", "tanh.approx.f16 16 16",
]  # fmt: skip


def values(letter: str, random: np.random.Generator) -> np.ndarray:
    """The bits of an operand for every lane: special and random ones."""
    count = LANES * ROWS
    kind = "f32" if letter == "f" else "h" if letter == "16" else "b"
    found = random.integers(0, 1 << 63, size=count, dtype=np.uint64) * 2 + 1
    small = random.standard_normal(count).astype(np.float32).view(np.uint32).astype(np.uint64)
    found = np.where(random.random(count) < 0.5, small, found)
    if letter == "g":
        return random.standard_normal(count).view(np.uint64)
    special = np.array(SPECIALS[kind], dtype=np.uint64)
    chosen = special[random.integers(0, len(special), size=count)]
    return np.where(random.random(count) < 0.4, chosen, found)


def program(forms: list[str]) -> tuple[str, list[list[str]]]:
    """A kernel that executes each form under a guard; the letters of its operands."""
    lines, shapes = [], []
    for number, form in enumerate(forms):
        text, *letters = form.split()
        constant = [letter[1:] for letter in letters if letter.startswith("=")]
        letters = [letter for letter in letters if not letter.startswith("=")]
        shapes.append(letters)
        places = ["0", "1", "2", "3", "4"]
        names = [
            f"{REGISTERS[letter]}{8 if letter == 'q' else place}"
            for letter, place in zip(letters, places, strict=False)
        ]
        for source, (letter, name) in enumerate(zip(letters[1:], names[1:], strict=True)):
            offset = (4 * number + source) * 8 * LANES * ROWS
            if letter == "p":
                lines.append(f"ld.global.u32 %r9, [%d9+{offset}]; and.b32 %r9, %r9, 1;")
                lines.append(f"setp.eq.s32 {name}, %r9, 1;")
            else:
                type_ = {"f": "f32", "g": "f64"}.get(letter, f"b{letter}")
                lines.append(f"ld.global.{type_} {name}, [%d9+{offset}];")
        result = names[0]
        if letters[0] in "pq":
            lines.append(f"setp.ne.s32 {result}, %r8, %r8;")
        else:
            type_ = {"f": "f32", "g": "f64"}.get(letters[0], f"b{letters[0]}")
            lines.append(f"mov.{type_} {result}, {_zero(letters[0])};")
        lines.append(f"@%p9 {text} {', '.join(names + constant)};")
        at = number * 8 * LANES * ROWS
        if letters[0] == "q":
            lines.append("selp.u32 %r7, 1, 0, %p0; selp.u32 %r9, 2, 0, %p8; or.b32 %r7, %r7, %r9;")
            lines.append(f"st.global.u32 [%d8+{at}], %r7;")
        elif letters[0] == "p":
            lines.append(f"selp.u32 %r7, 1, 0, {result}; st.global.u32 [%d8+{at}], %r7;")
        else:
            lines.append(f"st.global.{type_} [%d8+{at}], {result};")
    registers = (
        ".reg .b16 %h<10>; .reg .b32 %r<20>; .reg .b64 %d<20>; .reg .f32 %f<10>; "
        ".reg .f64 %g<10>; .reg .pred %p<10>;"
    )
    start = (
        "ld.param.u64 %d9, [x]; ld.param.u64 %d8, [y]; ld.param.u64 %d7, [m]; mov.u32 %r8, %tid.x; "
        "mul.wide.u32 %d6, %r8, 8; add.s64 %d9, %d9, %d6; add.s64 %d8, %d8, %d6; "
        "add.s64 %d7, %d7, %d6; ld.global.u32 %r9, [%d7]; setp.eq.s32 %p9, %r9, 1;"
    )
    parameters = ".param .u64 x, .param .u64 y, .param .u64 m"
    body = "\n".join(lines)
    return f"{HEAD}.visible .entry k({parameters})\n{{\n{registers}\n{start}\n{body}\nret;\n}}\n", (
        shapes
    )


def _zero(letter: str) -> str:
    return {"f": "0f00000000", "g": "0d0000000000000000"}.get(letter, "0")


def results(forms: list[str], seed: int, masked: bool) -> list[np.ndarray]:
    """What the two engines store, the native one first: (form, lane)."""
    random = np.random.default_rng(seed)
    text, shapes = program(forms)
    module, findings = parse(text, "forms.ptx")
    assert module is not None, findings
    sources = np.zeros((len(forms), 4, LANES * ROWS), dtype=np.uint64)
    for number, letters in enumerate(shapes):
        for source, letter in enumerate(letters[1:]):
            sources[number, source] = values(letter, random)
        if forms[number].startswith(("div.s", "div.u", "rem")):
            sources[number, 1] |= 1  # by zero gives nothing that is known
    mask = np.ones(LANES * ROWS, dtype=np.uint64)
    if masked:
        mask = random.integers(0, 2, size=LANES * ROWS).astype(np.uint64)
    out = SOURCES_AT + (sources.nbytes + 4095) // 4096 * 4096
    guards = out + 4096 * (1 + 8 * LANES * ROWS * len(forms) // 4096)
    memory = {SOURCES_AT: sources.tobytes(), guards: mask.tobytes(),
              out: bytes(8 * LANES * ROWS * len(forms))}  # fmt: skip
    places = (SOURCES_AT, out, guards)
    launch = Launch(
        None, (1, 1, 1), (LANES * ROWS, 1, 1), memory=memory,
        parameters=tuple(LaunchParameter(at.to_bytes(8, "little")) for at in places),
        allocations=tuple(Allocation(at, len(data)) for at, data in memory.items()),
    )  # fmt: skip
    found = []
    for native in (True, False):
        computed, findings = compute(module, launch, Options(), native=native)
        assert computed is not None, findings
        assert computed.run.outcome.ending is Ending.FINISHED, computed.run.outcome
        data, unknown = computed.contents(out, 8 * LANES * ROWS * len(forms))
        assert not unknown, f"{unknown} bytes are unknown"
        found.append(np.frombuffer(data, np.uint64).reshape(len(forms), LANES * ROWS))
    return found


@pytest.mark.parametrize("masked", [False, True], ids=["all lanes", "some lanes"])
@pytest.mark.parametrize("forms", [INTEGERS, FLOATS, CONVERSIONS], ids=["integer", "float", "cvt"])
def test_exact_forms_agree_to_the_bit(forms, masked):
    native, python = results(forms, 1 + masked, masked)
    assert [form for form, a, b in zip(forms, native, python, strict=True) if (a != b).any()] == []


def test_approximate_forms_agree_to_a_unit_in_the_last_place():
    native, python = results(NEARLY, 3, masked=False)
    far = np.abs(native.astype(np.int64) - python.astype(np.int64)).max(axis=1)
    assert [form for form, d in zip(NEARLY, far, strict=True) if d > 1] == []
