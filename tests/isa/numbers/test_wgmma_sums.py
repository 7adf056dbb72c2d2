"""Sums of wgmma to the bit on both engines, beside fractions; models wrong by a bit are noticed."""

from __future__ import annotations

import math
from functools import cache
from random import Random

import numpy as np
import pytest

from tests.isa.numbers.test_integer_products import ENGINES, HEAD, IN_AT, OUT_AT
from tests.isa.numbers.test_sums import drawn, reference
from titan.isa.numbers.formats import BF16, E4M3, E5M2, F16, F32, TF32, FloatFormat, encode
from titan.isa.numbers.native import CoreOptions
from titan.isa.numbers.run import compute
from titan.isa.numbers.sums import SumRule, rule_of
from titan.isa.ptx.parse import parse
from titan.isa.simt.launch import Allocation, Launch, LaunchParameter, Options
from titan.isa.simt.outcome import Ending

FORMS = [BF16, F16, TF32, E4M3, E5M2]
KINDS = ["near", "any", "cancelling", "ladder"]
ROWS, COLUMNS, ROW_BYTES = 64, 8, 32  # one m64n8 instruction: each row is 32 bytes along K
A_BYTES, B_BYTES = ROWS * ROW_BYTES, COLUMNS * ROW_BYTES
DTYPES = {1: np.uint8, 2: np.uint16, 4: np.uint32}
Matrix = list[list[int]]


def element_bytes(form: FloatFormat) -> int:
    return {"tf32": 4}.get(form.name, form.bits // 8)


def body_of(form: FloatFormat) -> str:
    depth = ROW_BYTES // element_bytes(form)
    last = ", 0, 0" if form in (BF16, F16) else ""
    descriptor = 8 << 16 | 16 << 32  # no swizzle: 128 bytes along K, 256 from 8 rows to the next
    return f"""
    .shared .align 128 .b8 tile[{A_BYTES + B_BYTES}];
    ld.param.u64 %d1, [x]; ld.param.u64 %d2, [y]; mov.u32 %r30, %tid.x; mov.u32 %r29, tile;
    mul.wide.u32 %d3, %r30, 16; add.s64 %d1, %d1, %d3; shl.b32 %r28, %r30, 4;
    add.u32 %r28, %r28, %r29; setp.lt.u32 %p1, %r30, 16;
    ld.global.v4.b32 {{%r0, %r1, %r2, %r3}}, [%d1]; st.shared.v4.b32 [%r28], {{%r0, %r1, %r2, %r3}};
    @%p1 ld.global.v4.b32 {{%r0, %r1, %r2, %r3}}, [%d1+{A_BYTES}];
    @%p1 st.shared.v4.b32 [%r28+{A_BYTES}], {{%r0, %r1, %r2, %r3}};
    ld.global.v4.f32 {{%f0, %f1, %f2, %f3}}, [%d1+{A_BYTES + B_BYTES}];
    fence.proxy.async; bar.sync 0;
    shr.u32 %r29, %r29, 4; cvt.u64.u32 %d4, %r29; or.b64 %d4, %d4, {descriptor};
    add.s64 %d5, %d4, {A_BYTES >> 4};
    wgmma.fence.sync.aligned;
    wgmma.mma_async.sync.aligned.m64n8k{depth}.f32.{form.name}.{form.name}
        {{%f0, %f1, %f2, %f3}}, %d4, %d5, 1, 1, 1{last};
    wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
    add.s64 %d2, %d2, %d3;
    st.global.v4.f32 [%d2], {{%f0, %f1, %f2, %f3}};
    """


def stored(rows: Matrix, form: FloatFormat) -> bytes:
    """Core matrices of 8 rows of 16 bytes, two along K, then the next 8 rows."""
    shift = 13 if form is TF32 else 0
    data = (np.array(rows, np.int64) << shift).astype(DTYPES[element_bytes(form)])
    lines = data.view(np.uint8).reshape(-1, 8, 2, 16)
    return lines.transpose(0, 2, 1, 3).tobytes()


def of_fragment(warp: int, lane: int, n: int) -> tuple[int, int]:
    """PTX, "Register Fragments for wgmma.mma_async.m64n8k16"."""
    return 16 * warp + lane // 4 + 8 * (n // 2), lane % 4 * 2 + n % 2


def multiplied(a: Matrix, b: Matrix, c: Matrix, form: FloatFormat, native: bool) -> Matrix:
    """Bits of `a @ b.T + c` by one wgmma."""
    registers = ".reg .b32 %r<40>; .reg .f32 %f<8>; .reg .b64 %d<10>; .reg .pred %p<4>;"
    entry = ".visible .entry k(.param .u64 x, .param .u64 y)"
    text = f"{HEAD}{entry}\n{{\n{registers}\n{body_of(form)}\nret;\n}}\n"
    module, findings = parse(text, "k.ptx")
    assert module is not None, findings
    places = [of_fragment(w, lane, n) for w in range(4) for lane in range(32) for n in range(4)]
    addends = np.array([c[row][column] for row, column in places], np.uint32)
    given = stored(a, form) + stored(b, form) + addends.tobytes()
    memory = {IN_AT: given, OUT_AT: bytes(2048)}
    launch = Launch(
        None, (1, 1, 1), (128, 1, 1), memory=memory,
        parameters=tuple(LaunchParameter(at.to_bytes(8, "little")) for at in (IN_AT, OUT_AT)),
        allocations=tuple(Allocation(at, len(data)) for at, data in memory.items()),
    )  # fmt: skip
    asked = CoreOptions(exact=True)
    computed, findings = compute(module, launch, Options(), native=native, asked=asked)
    assert computed is not None, findings
    assert computed.run.outcome.ending is Ending.FINISHED, computed.run.outcome
    data, unknown = computed.contents(OUT_AT, 2048)
    assert not unknown
    found = [[0] * COLUMNS for _ in range(ROWS)]
    for (row, column), bits in zip(places, np.frombuffer(data, np.uint32), strict=True):
        found[row][column] = int(bits)
    return found


def operands(form: FloatFormat, kind: str) -> tuple[Matrix, Matrix, Matrix]:
    random, depth = Random(f"{form.name} {kind}"), ROW_BYTES // element_bytes(form)
    spread = kind == "any"
    a = [[drawn(random, form, spread) for _ in range(depth)] for _ in range(ROWS)]
    b = [[drawn(random, form, spread) for _ in range(depth)] for _ in range(COLUMNS)]
    c = [[drawn(random, F32, spread) for _ in range(COLUMNS)] for _ in range(ROWS)]
    if kind == "cancelling":  # each second product is the opposite of the one before
        sign = 1 << (form.bits - 1)
        a = [[row[k // 2 * 2] ^ (sign if k % 2 else 0) for k in range(depth)] for row in a]
        b = [[row[k // 2 * 2] for k in range(depth)] for row in b]
    if kind == "ladder":  # one, and terms below it by more and more places, of both signs
        low = 1 - form.bias
        b = [[encode(1.0, form)] + [encode(2.0 ** -random.randrange(-low), form)
                                    for _ in range(depth - 1)] for _ in b]  # fmt: skip
        a = [[encode(random.choice((1.0, -1.0)), form)]
             + [encode(random.choice((1.5, -1.75, 1.0)) * 2.0 ** -random.randrange(-low), form)
                for _ in range(depth - 1)] for _ in a]  # fmt: skip
        c = [[encode(random.choice((0.0, 3.0, -1.0)) * 2.0 ** -random.randrange(30), F32)
              for _ in row] for row in c]  # fmt: skip
    return a, b, c


@cache
def computed_by_core(form: FloatFormat, kind: str, native: bool) -> Matrix:
    return multiplied(*operands(form, kind), form, native)


@cache
def modelled(form: FloatFormat, kind: str, rule: SumRule, cut=math.trunc) -> Matrix:
    a, b, c = operands(form, kind)
    return [
        [reference(a[row], b[column], c[row][column], form, rule, cut) for column in range(COLUMNS)]
        for row in range(ROWS)
    ]


@pytest.mark.parametrize("native", ENGINES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_wgmma_sums_are_those_of_the_model(form, kind, native):
    assert computed_by_core(form, kind, native) == modelled(form, kind, rule_of(form))


@pytest.mark.parametrize("native", ENGINES)
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
@pytest.mark.parametrize(
    ("kept", "result", "cut"),
    [(-1, 0, math.trunc), (1, 0, math.trunc), (0, -1, math.trunc), (0, 0, math.floor),
     (0, 0, round)],
    ids=["a bit less kept", "a bit more kept", "a bit less of the sum", "floor", "nearest"],
)  # fmt: skip
def test_a_model_wrong_by_a_bit_is_noticed(kept, result, cut, form, native):
    right = rule_of(form)
    wrong = SumRule(right.kept + kept, right.result + result)
    kinds = ("ladder", "near")
    assert any(
        modelled(form, kind, wrong, cut) != computed_by_core(form, kind, native) for kind in kinds
    )
