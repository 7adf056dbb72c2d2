"""Kernels of two warps whose CTAs order each other by words of global memory, from [%d1] on."""

from __future__ import annotations

from typing import Protocol

from titan.foundation.source.span import Source
from titan.frontends.ptx.launch import read_launch_text
from titan.frontends.verify_code import CodeOptions, verify_code
from titan.verify.model import Finding

_HEAD = """.version 8.7
.target sm_90a
.address_size 64
{shared}.entry k(.param .u64 p, .param .u64 q) {{
.reg .pred %p<9>;
.reg .b32 %r<32>;
.reg .b64 %d<32>;
ld.param.u64 %d0, [p];
ld.param.u64 %d1, [q];
mov.u32 %r1, %tid.x;
mov.u32 %r2, %ctaid.x;
mov.u32 %r3, %nctaid.x;
mov.u32 %r9, %clock;
add.u32 %r4, %r2, 1;
{more}mad.wide.u32 %d3, %r1, 4, %d0;
mad.wide.u32 %d2, %r2, 256, %d3;
setp.eq.u32 %p0, %r1, 0;
"""


Clock = tuple[int, ...]


class Step(Protocol):
    """What a CTA does next, as instructions of one thread."""

    def ptx(self, label: str) -> str: ...


def head(shared: str = "", more: str = "") -> str:
    """What is before the body; `shared`: variables, `more`: instructions."""
    return _HEAD.format(shared=shared, more=more)


def finding_on(text: str, described: str) -> Finding:
    """The finding on a kernel and its launch."""
    launch, errors = read_launch_text(described, "k.yaml")
    assert errors == []
    options = CodeOptions(steps_max=20_000, schedules=0)
    (finding,) = verify_code(Source("k.ptx", text + "\nret;\n}\n"), launch, options, [], 0.0)
    return finding


def by_cta(program: tuple[tuple[Step, ...], ...]) -> str:
    """Each CTA's steps, by its first thread."""
    lines = ["@!%p0 bra END; ld.global.u32 %r30, [%d0+65536];"]
    for cta, steps in enumerate(program):
        lines.append(f"setp.ne.u32 %p8, %r2, {cta}; @%p8 bra C{cta};")
        lines += [step.ptx(f"L{cta}_{n}") for n, step in enumerate(steps)]
        lines.append(f"bra END; C{cta}:")
    return "\n".join([*lines, "END:"])


def join(one: Clock, other: Clock) -> Clock:
    """What both know."""
    return tuple(map(max, one, other))
