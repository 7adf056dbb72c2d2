"""Which decoder reads which instruction."""

from __future__ import annotations

from titan.isa.ptx import module as ptx
from titan.isa.simt import decode_arithmetic as arithmetic
from titan.isa.simt import decode_async as asynchronous
from titan.isa.simt import decode_memory as memory
from titan.isa.simt.decode_context import DecodeContext, Handler
from titan.isa.simt.operations import DecodedStep, Op


def _constant(op: Op) -> Handler:
    def handler(context: DecodeContext, instruction: ptx.Instruction) -> DecodedStep:
        return DecodedStep(op)

    return handler


_PLAIN = (
    "add sub div rem abs neg min max and or xor not cnot shl shr bfe bfi brev clz popc sad fma "
    "selp slct mul mad lop3 bmsk szext fns mul24 mad24"
)
_OPAQUE = (
    "copysign cos dp2a dp4a ex2 lg2 rcp rsqrt sin sqrt tanh testp vabsdiff "
    "vabsdiff2 vabsdiff4 vadd vadd2 vadd4 vavrg2 vavrg4 vmad vmax vmax2 vmax4 vmin vmin2 vmin4 "
    "vset vset2 vset4 vshl vshr vsub vsub2 vsub4 istypep"
)
_HINTS = "createpolicy nanosleep pmevent prefetchu brkpt"

HANDLERS: dict[str, Handler] = {
    **{name: arithmetic.plain for name in _PLAIN.split()},
    **{name: arithmetic.opaque for name in _OPAQUE.split()},
    **{name: arithmetic.nothing for name in _HINTS.split()},
    **{name: arithmetic.carried for name in arithmetic.CARRYING},
    "mov": arithmetic.move,
    "setp": arithmetic.compare,
    "set": arithmetic.compare,
    "cvt": arithmetic.convert,
    "shf": arithmetic.funnel,
    "bfind": arithmetic.find_bit,
    "prmt": arithmetic.permute,
    "cvta": arithmetic.convert_address,
    "isspacep": arithmetic.is_space,
    "mapa": arithmetic.map_address,
    "getctarank": arithmetic.get_rank,
    "bra": arithmetic.branch,
    "brx": arithmetic.branch_indexed,
    "call": arithmetic.call,
    "ret": _constant(Op.RETURN),
    "exit": _constant(Op.EXIT),
    "trap": _constant(Op.TRAP),
    "ld": memory.load,
    "ldu": memory.load,
    "st": memory.store,
    "atom": memory.atomic,
    "red": memory.atomic,
    "multimem": memory.multimem,
    "ldmatrix": memory.load_matrix,
    "stmatrix": memory.store_matrix,
    "prefetch": memory.prefetch,
    "applypriority": memory.prefetch,
    "tensormap": memory.tensormap,
    "shfl": memory.shuffle,
    "vote": memory.vote,
    "match": memory.match,
    "redux": memory.reduce,
    "elect": memory.elect,
    "activemask": memory.active_mask,
    "mma": memory.collective,
    "movmatrix": memory.collective,
    "wmma": memory.warp_matrices,
    "mbarrier": memory.mbarrier,
    "bar": memory.barrier,
    "barrier": memory.barrier,
    "fence": memory.fence,
    "membar": memory.fence,
    "cp": asynchronous.copy,
    "wgmma": asynchronous.wgmma,
    "tcgen05": asynchronous.tcgen05,
    "setmaxnreg": asynchronous.register_count,
    "griddepcontrol": asynchronous.grid_control,
    "clusterlaunchcontrol": asynchronous.launch_control,
}
