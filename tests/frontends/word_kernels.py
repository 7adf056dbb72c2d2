"""A chain of CTAs of two warps by a word, as serial split-K has it, and what is found on such."""

from __future__ import annotations

from tests.frontends.grid_kernels import finding_on, head
from titan.foundation.verdict import Verdict

S = ".shared .align 16 .b8 s[256];\n"
HEAD = head(shared=S, more="add.u32 %r6, %r3, -1;\n") + "setp.ne.u32 %p1, %r2, 0;\n"


def found(body: str, grid: int = 4, cooperative: bool = False) -> tuple[Verdict, str]:
    """The verdict on a kernel of two warps with these instructions."""
    parameters = "[pointer, {pointer: {u32: [0, 0, 0, 0]}}]"
    more = ", cooperative: true" if cooperative else ""
    text = f"{{grid: {grid}, block: 64, shared: 0, parameters: {parameters}{more}}}"
    finding = finding_on(HEAD + body, text)
    headlines = [item.headline for item in finding.diagnostics]
    return finding.verdict, "; ".join([*headlines, *finding.notes])


WAIT = """@!%p0 bra GO;
W: ld.acquire.gpu.global.u32 %r5, [%d1]; setp.ne.u32 %p2, %r5, %r2; @%p2 bra W; GO:"""
BAR = "bar.sync 0;"
USE = "@%p1 ld.global.u32 %r9, [%d3]; st.global.u32 [%d3], %r9;"
SIGNAL = "@%p0 st.release.gpu.global.u32 [%d1], %r4;"
ADD = "@%p0 red.release.gpu.global.add.u32 [%d1], 1;"
CHAIN = (WAIT, BAR, USE, BAR, SIGNAL)
FENCE = "membar.gl;"
VOLATILE = WAIT.replace("acquire.gpu", "volatile")
STORE = "@%p0 st.volatile.global.u32 [%d1], %r4;"
GRID = """@!%p0 bra G{n};
atom.add.release.gpu.global.u32 %r12, [%d1], %r13;
V{n}: ld.acquire.gpu.global.u32 %r14, [%d1]; xor.b32 %r15, %r14, %r12;
setp.gt.s32 %p5, %r15, -1; @%p5 bra V{n};
G{n}: bar.sync 0;"""
SHARE = "sub.u32 %r13, 0x80000001, %r3; selp.u32 %r13, 1, %r13, %p1;"
NEXT = """setp.eq.u32 %p6, %r4, %r3; selp.u32 %r16, 0, %r4, %p6;
mad.wide.u32 %d5, %r16, 256, %d3; ld.global.u32 %r17, [%d5];"""


def chain(**edits: str) -> str:
    """Serial split-K, with some of its parts replaced, by number."""
    return "\n".join(edits.get(f"at{n}", text) for n, text in enumerate(CHAIN))
