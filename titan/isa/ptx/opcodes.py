"""The instructions of PTX ISA 9.x by their first word, and sizes of types."""

from __future__ import annotations

_WORDS = """
abs activemask add addc alloca and applypriority atom bar barrier bfe bfi bfind bmsk bra brev
brx brkpt call clusterlaunchcontrol clz cnot copysign cos cp createpolicy cvt cvta discard div
dp2a dp4a elect ex2 exit fence fma fns getctarank griddepcontrol isspacep istypep ld ldmatrix
ldu lg2 lop3 mad mad24 madc mapa match max mbarrier membar min mma mov movmatrix mul mul24
multimem nanosleep neg not or pmevent popc prefetch prefetchu prmt rcp red redux rem ret rsqrt
sad selp set setmaxnreg setp shf shfl shl shr sin slct sqrt st stackrestore stacksave stmatrix
sub subc suld suq sured sust szext tanh tcgen05 tensormap testp tex tld4 trap txq vabsdiff
vabsdiff2 vabsdiff4 vadd vadd2 vadd4 vavrg2 vavrg4 vmad vmax vmax2 vmax4 vmin vmin2 vmin4 vote
vset vset2 vset4 vshl vshr vsub vsub2 vsub4 wgmma wmma xor
"""
OPCODES = frozenset(_WORDS.split())

TYPE_BYTES: dict[str, int] = {
    "pred": 1, "b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "f16": 2, "bf16": 2,
    "b32": 4, "u32": 4, "s32": 4, "f32": 4, "f16x2": 4, "bf16x2": 4, "tf32": 4, "b64": 8, "u64": 8,
    "s64": 8, "f64": 8, "f32x2": 8, "b128": 16, "e4m3": 1, "e5m2": 1, "e4m3x2": 2, "e5m2x2": 2,
    "texref": 8, "samplerref": 8, "surfref": 8, "u8x4": 4, "s8x4": 4, "u16x2": 4, "s16x2": 4,
}  # fmt: skip
