"""Bodies of functions in place of their calls compute what the calls compute; some calls stay."""

from __future__ import annotations

import random

import numpy as np
import pytest

from titan.isa.numbers.device import EmulatedDevice, LaunchShape
from titan.isa.ptx.inlined import ADDED_MAX
from titan.isa.ptx.module import Module
from titan.isa.ptx.parse import parse

HEAD = ".version 8.3\n.target sm_90a\n.address_size 64\n"
KERNEL = """
.visible .entry k(.param .u64 x)
{{
  .reg .pred %p<8>; .reg .b16 %h<4>; .reg .b32 %r<40>; .reg .b64 %d<8>;
  ld.param.u64 %d1, [x];
  mov.u32 %r0, %tid.x;
  mul.wide.u32 %d2, %r0, 4;
  add.u64 %d3, %d1, %d2;
  ld.global.u32 %r1, [%d3];
  {body}
  st.global.u32 [%d3], %r1;
  ret;
}}
"""
REGISTERS = ".reg .pred %p<8>; .reg .b16 %h<4>; .reg .b32 %r<40>; .reg .b64 %d<8>;"


def function(name: str, body: str) -> str:
    """One of two words that gives a word: %r1 and %r2 are its arguments, %r3 is its result."""
    return f"""
.func (.param .b32 o) {name}(.param .b32 a, .param .b32 b)
{{
  {REGISTERS}
  ld.param.u32 %r1, [a]; ld.param.u32 %r2, [b];
  {body}
}}
"""


def call(name: str, first: str, second: str, result: str, guard: str = "") -> str:
    return f"""{{ .param .b32 pa; .param .b32 pb; .param .b32 po;
  st.param.b32 [pa], {first}; st.param.b32 [pb], {second};
  {guard} call (po), {name}, (pa, pb);
  ld.param.b32 {result}, [po]; }}"""


END = "st.param.b32 [o], %r3; ret;"
ADD = function("f", "mad.lo.u32 %r3, %r1, 3, %r2; " + END)


def read(text: str, *, calls: bool) -> Module:
    module, findings = parse(HEAD + text, "k.ptx", calls=calls)
    assert module is not None, [item.headline for item in findings]
    return module


def called(module: Module) -> int:
    return sum(item.opcode == "call" for item in module.instructions)


def computed(module: Module) -> list[int]:
    device = EmulatedDevice()
    array = device.array(np.arange(5, 69, dtype=np.uint32) * 77)
    device.launch(module, LaunchShape((1, 1, 1), (64, 1, 1)), [array])
    return array.values.tolist()


def same(text: str, left: int = 0) -> None:
    """The calls, of which `left` stay, compute what the bodies compute."""
    plain, made = read(text, calls=True), read(text, calls=False)
    assert called(plain) > called(made) == left
    assert computed(made) == computed(plain)


EARLY = (
    "setp.gt.u32 %p1, %r1, 900; mov.u32 %r3, 9; @!%p1 bra N;" + END + " N: mov.u32 %r3, %r2; " + END
)
GUARDED = (
    "mov.u32 %r3, %r2; setp.gt.u32 %p1, %r1, 900; st.param.b32 [o], %r2; @%p1 ret;"
    "add.u32 %r3, %r2, %r1; " + END
)
INDEXED = (
    "and.b32 %r4, %r1, 1; T: .branchtargets A, B; brx.idx %r4, T;"
    "A: mov.u32 %r3, %r1; bra E; B: mov.u32 %r3, %r2; E: " + END
)
HALVES = (
    ".local .align 8 .b8 place[8]; mov.u64 %d1, place; st.local.u32 [%d1], %r1;"
    "st.local.u32 [%d1+4], %r2; ld.local.u64 %d2, [%d1]; shr.u64 %d2, %d2, 20;"
    "cvt.u32.u64 %r3, %d2; " + END
)
BODIES = {
    "it computes": "mad.lo.u32 %r3, %r1, 3, %r2; " + END,
    "it returns in two places": EARLY,
    "a guard returns": GUARDED,
    "a table leads on": INDEXED,
    "it has memory of its own": HALVES,
    "it stores its result by halves": "st.param.u16 [o], 7; st.param.u16 [o+2], 9; ret;",
    "it loads several words": "mov.b64 %d1, {%r1, %r2}; mov.b64 {%r4, %r3}, %d1;" + END,
    "it has no ret at its end": "xor.b32 %r3, %r1, %r2; st.param.b32 [o], %r3;",
    "it stores at an offset in its result": "add.u32 %r3, %r1, 1; st.param.u16 [o], 7; " + END,
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_a_body_computes_what_the_call_does(body):
    f = function("f", body)
    same(f + KERNEL.format(body=call("f", "%r1", "5", "%r1")))
    twice = call("f", "%r1", "%r0", "%r2") + call("f", "%r2", "%r1", "%r1")
    same(f + KERNEL.format(body=twice))
    guarded = "mov.u32 %r2, 3; setp.lt.u32 %p1, %r0, 20;" + call("f", "%r1", "%r0", "%r4", "@!%p1")
    same(f + KERNEL.format(body=guarded + "@!%p1 add.u32 %r1, %r4, %r2;"))
    looped = "mov.u32 %r2, 0; L: " + call("f", "%r1", "%r2", "%r1")
    looped += "add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 3; @%p1 bra L;"
    same(f + KERNEL.format(body=looped))
    outer = function("g", call("f", "%r2", "%r1", "%r3") + END)
    same(f + outer + KERNEL.format(body=call("g", "%r1", "%r0", "%r1")))


def test_functions_drawn_by_chance_compute_what_their_calls_do():
    """Each calls those before it, under guards and in arms too."""
    for seed in range(12):
        drawn = random.Random(seed)
        text = ""
        for number in range(4):
            lines = ["mov.u32 %r3, %r1;"]
            for step in range(5):
                one, other = drawn.choices(("%r1", "%r2", "%r3"), k=2)
                kind = drawn.choice(("add", "xor", "arm", "call"))
                if kind == "arm":
                    inner = f"add.u32 %r3, {one}, {other};"
                    if number:
                        inner += call(f"f{drawn.randrange(number)}", one, "%r3", "%r2")
                    lines.append(
                        f"setp.gt.u32 %p1, {one}, {drawn.randrange(9000)};"
                        f"@%p1 bra L{step}; {inner} L{step}:"
                    )
                elif kind == "call" and number:
                    lines.append(call(f"f{drawn.randrange(number)}", one, other, "%r3"))
                else:
                    word = "xor.b32" if kind == "xor" else "add.u32"
                    lines.append(f"{word} %r3, {one}, {other}; add.u32 %r3, %r3, 3;")
            text += function(f"f{number}", "\n".join(lines) + END)
        same(text + KERNEL.format(body=call("f3", "%r1", "%r0", "%r1")))


LOOP = "mov.u32 %r3, 0; L: add.u32 %r3, %r3, %r2; setp.lt.u32 %p1, %r3, %r1; @%p1 bra L; " + END
STATIC = ".shared .b32 kept[1]; st.shared.u32 [kept], 5; ld.shared.u32 %r3, [kept]; " + END
STAYS = {
    "a loop that waits for nothing": function("f", LOOP),
    "a static variable": function("f", STATIC),
    "a name that the caller has": ".global .b32 pb = 5;"
    + function("f", "ld.global.u32 %r3, [pb]; " + END),
    "a register that a guard writes": function(
        "f", "setp.gt.u32 %p1, %r1, 900; @%p1 mov.u32 %r3, 9; " + END
    ),
    "a register that one arm writes": function(
        "f", "setp.gt.u32 %p1, %r1, 900; @%p1 bra L; mov.u32 %r3, 9; L: " + END
    ),
    "a guard that nothing writes": function("f", "mov.u32 %r3, 9; @%p1 mov.u32 %r3, 8; " + END),
    "a result that a guard stores": function(
        "f", "setp.gt.u32 %p1, %r1, 900; @%p1 st.param.b32 [o], %r1; ret;"
    ),
    "a result on one of two ways": function(
        "f", "setp.gt.u32 %p1, %r1, 900; @%p1 ret; mov.u32 %r3, %r2; " + END
    ),
    "half of a result": function("f", "st.param.u16 [o], 7; ret;"),
    "the other half of it": function("f", "st.param.u16 [o+2], 7; st.param.u16 [o+4], 7; ret;"),
    "a function that calls itself": function("f", call("f", "%r1", "%r2", "%r3") + END),
}


@pytest.mark.parametrize("f", STAYS.values(), ids=STAYS)
def test_a_call_stays(f):
    text = f + KERNEL.format(body=call("f", "%r1", "5", "%r1"))
    plain, made = read(text, calls=True), read(text, calls=False)
    assert called(made) == called(plain)
    assert [function.name for function in made.functions] == ["f", "k"]


def test_what_a_function_calls_stays_where_it_has_a_loop():
    inner = function("f", LOOP)
    outer = function("g", call("f", "%r1", "3", "%r3") + END)
    text = (
        inner
        + outer
        + ADD.replace("f(", "h(")
        + KERNEL.format(body=call("g", "%r1", "5", "%r1") + call("h", "%r1", "5", "%r1"))
    )
    same(text, left=2)


def test_calls_stay_where_a_module_would_grow_too_far():
    """f16 would be as long as 2^16 of f0."""
    text = ADD.replace("f(", "f0(")
    for number in range(1, 17):
        inner = f"f{number - 1}"
        body = call(inner, "%r1", "%r2", "%r4") + call(inner, "%r4", "%r1", "%r3") + END
        text += function(f"f{number}", body)
    module = read(text + KERNEL.format(body=call("f16", "%r1", "5", "%r1")), calls=False)
    assert called(module) > 0
    assert len(module.instructions) < 4 * ADDED_MAX


def test_variables_of_one_name_in_two_scopes_have_memory_of_their_own():
    """nvcc -G names the results of all calls `retval0`, whatever they are."""
    wide = """.func (.param .b64 o) w(.param .b64 a)
{ .reg .b64 %d<4>; ld.param.u64 %d1, [a]; shl.b64 %d1, %d1, 3; st.param.b64 [o], %d1; ret; }"""
    body = (
        "cvt.u64.u32 %d4, %r1;"
        "{ .param .b64 pa; .param .b64 po; st.param.b64 [pa], %d4; call (po), w, (pa);"
        "ld.param.b64 %d4, [po]; } cvt.u32.u64 %r1, %d4;"
    )
    text = ADD + wide + KERNEL.format(body=call("f", "%r1", "5", "%r1") + body)
    same(text)
    made = read(text, calls=True)
    shapes = {variable.name: variable.size_bytes for variable in made.functions[-1].variables}
    assert shapes == {"pa": 4, "pb": 4, "po": 4, "pa#2": 8, "po#2": 8}
    assert computed(made) == [(3 * 77 * n + 5) * 8 for n in range(5, 69)]


def test_what_is_passed_whole_is_in_registers():
    text = ADD + KERNEL.format(body=call("f", "%r1", "5", "%r1"))
    words = {"param"}
    left = [i for i in read(text, calls=False).instructions if words & set(i.modifiers)]
    assert [item.name for item in left] == ["ld.param.u64"]  # of the kernel's parameter
    halves = text.replace("ld.param.u32 %r1, [a];", "ld.param.u16 %h1, [a]; cvt.u32.u16 %r1, %h1;")
    left = [i for i in read(halves, calls=False).instructions if words & set(i.modifiers)]
    assert len(left) == 3
    same(halves)
