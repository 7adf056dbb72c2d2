"""Decodes what computes registers from registers, and control."""

from __future__ import annotations

from titan.isa.ptx import module as ptx
from titan.isa.simt.decode_context import DecodeContext, Unsupported, space_of, type_of
from titan.isa.simt.footprints import MemorySpace
from titan.isa.simt.operations import (
    COMBINATIONS,
    COMPARISONS,
    INTEGER_ROUNDINGS,
    DecodedStep,
    Kind,
    Op,
)
from titan.isa.simt.undefined_results import NARROW_BITS

_FLOATS = (Kind.FLOAT, Kind.BFLOAT)
_INTEGERS = (Kind.UNSIGNED, Kind.SIGNED)
_COMPUTED = ((Kind.FLOAT, 32), (Kind.FLOAT, 64))
_PLAIN = {
    "add": Op.ADD, "sub": Op.SUB, "div": Op.DIV, "rem": Op.REM, "abs": Op.ABS, "neg": Op.NEG,
    "min": Op.MIN, "max": Op.MAX, "and": Op.AND, "or": Op.OR, "xor": Op.XOR, "not": Op.NOT,
    "cnot": Op.CNOT, "shl": Op.SHL, "shr": Op.SHR, "bfe": Op.BFE, "bfi": Op.BFI, "brev": Op.BREV,
    "clz": Op.CLZ, "popc": Op.POPC, "sad": Op.SAD, "fma": Op.FMA, "selp": Op.SELP,
    "slct": Op.SLCT, "mul": Op.MUL_LOW, "mad": Op.MAD_LOW, "lop3": Op.LOP3, "bmsk": Op.BMSK,
    "szext": Op.SZEXT, "fns": Op.FNS, "mul24": Op.MUL_LOW, "mad24": Op.MAD_LOW,
}  # fmt: skip
_FLOAT_OPS = {Op.ADD, Op.SUB, Op.MUL_LOW, Op.FMA, Op.MAD_LOW, Op.NEG, Op.ABS, Op.MIN, Op.MAX}
_FLOAT_OPS |= {Op.SELP, Op.SLCT}
_INEXACT = ("rz", "rm", "rp", "sat", "approx", "full", "NaN", "xorsign", "oob", "relu")
_WIDE = {Op.MUL_LOW: Op.MUL_WIDE, Op.MAD_LOW: Op.MAD_WIDE}
_HIGH = {Op.MUL_LOW: Op.MUL_HIGH, Op.MAD_LOW: Op.MAD_HIGH}
_PACKED = {"u16x2": Kind.UNSIGNED, "s16x2": Kind.SIGNED}
CARRYING = ("addc", "subc", "madc")
_OF_HALVES = (Op.ADD, Op.MIN, Op.MAX)
# Operands that are always of 32 bits, by the operation and their place.
_WORDS = {Op.SHL: (1,), Op.SHR: (1,), Op.BFE: (1, 2), Op.BFI: (2, 3)}


def outputs(context: DecodeContext, operand: ptx.Operand) -> tuple[int, ...]:
    """The registers of a result, of `d|p` or of a vector."""
    if isinstance(operand, ptx.Pair):
        return (context.result(operand.first), context.result(operand.second))
    return context.results(operand)


def opaque(context: DecodeContext, instruction: ptx.Instruction) -> DecodedStep:
    """A result that the domain of unknown values does not compute; all sources, in their order."""
    out = outputs(context, instruction.operands[0])
    kind, bits = type_of(instruction.modifiers[-1]) or (Kind.BITS, 32)
    args: list[int] = []
    for operand in instruction.operands[1:]:
        if isinstance(operand, ptx.Vector):
            args.extend(context.sources(operand))
        elif isinstance(operand, ptx.PtxRegister | ptx.Immediate):
            args.append(context.source(operand, bits, kind))
    return DecodedStep(Op.OPAQUE, out=out, args=tuple(args))


def _halves(context: DecodeContext, instruction: ptx.Instruction) -> DecodedStep | None:
    """Two integers of 16 bits in a register; None where the machine does not compute them."""
    op, words = _PLAIN[instruction.opcode], instruction.modifiers
    kind = _PACKED.get(words[-1])
    if kind is None or op not in _OF_HALVES or "sat" in words:
        return None
    args = tuple(context.source(operand, 32, kind) for operand in instruction.operands[1:])
    flags = (int(op), int("relu" in words))
    out = outputs(context, instruction.operands[0])
    return DecodedStep(Op.HALVES, kind=kind, bits=32, flags=flags, out=out, args=args)


def plain(context: DecodeContext, instruction: ptx.Instruction) -> DecodedStep:
    """Two- and three-operand arithmetic and logic."""
    op = _PLAIN[instruction.opcode]
    modifiers, operands = instruction.modifiers, instruction.operands
    if "cc" in modifiers:
        return carried(context, instruction)
    packed = _halves(context, instruction)
    if packed is not None:
        return packed
    type_ = type_of(modifiers[-1])
    if type_ is None or (type_[0] is Kind.BFLOAT and op is not Op.SELP):
        return opaque(context, instruction)
    kind, bits = type_
    if kind in _FLOATS and op is not Op.SELP:
        inexact = any(word in modifiers for word in _INEXACT) or bits not in (32, 64)
        if op not in _FLOAT_OPS or inexact or (op in (Op.MIN, Op.MAX) and len(operands) == 4):
            return opaque(context, instruction)
        if op is Op.MAD_LOW:
            op = Op.FMA
    clamped = "relu" in modifiers and kind is Kind.SIGNED and op in (Op.MIN, Op.MAX)
    if "sat" in modifiers or ("relu" in modifiers and not clamped):
        return opaque(context, instruction)
    if "wide" in modifiers:
        op = _WIDE[op]
    elif "hi" in modifiers:
        if instruction.opcode.endswith("24"):
            return opaque(context, instruction)
        op = _HIGH[op]
    flags: tuple[int, ...] = (1,) if clamped else ()
    if kind in _FLOATS:
        flags = (int("ftz" in modifiers),)
    if instruction.opcode.endswith("24"):
        flags = (NARROW_BITS,)
    if op is Op.LOP3:
        if isinstance(operands[0], ptx.Pair) or "BoolOp" in modifiers or "and" in modifiers:
            return opaque(context, instruction)
        last = operands[4]
        if not isinstance(last, ptx.Immediate):
            raise Unsupported("a table that is not constant")
        flags, operands = (last.value & 255,), operands[:4]
    if op in (Op.BMSK, Op.SZEXT):
        flags = (int("wrap" in modifiers),)
    words = _WORDS.get(op, ())
    args = []
    for place, operand in enumerate(operands[1:]):
        wide = op in (Op.MAD_WIDE,) and place == 2
        width = 32 if place in words else 2 * bits if wide else bits
        if op is Op.SELP and place == 2:
            args.append(context.source(operand, 1, Kind.PREDICATE))
        else:
            args.append(context.source(operand, width, kind))
    return DecodedStep(op, kind=kind, bits=bits, flags=flags, out=outputs(context, operands[0]),
                args=tuple(args))  # fmt: skip


def carried(context: DecodeContext, instruction: ptx.Instruction) -> DecodedStep:
    """Sums that give a carry (`.cc`), add one (addc, subc, madc), or both."""
    words, operands = instruction.modifiers, instruction.operands
    type_ = type_of(words[-1])
    if type_ is None or type_[1] not in (32, 64) or type_[0] not in (Kind.UNSIGNED, Kind.SIGNED):
        raise Unsupported("the type")
    adds = instruction.opcode in CARRYING
    op = _PLAIN[instruction.opcode.removesuffix("c") if adds else instruction.opcode]
    if op is Op.MAD_LOW and "hi" in words:
        op = Op.MAD_HIGH
    kind, bits = type_
    out = context.results(operands[0])
    args = [context.source(operand, bits, kind) for operand in operands[1:]]
    if len(out) != 1 or len(args) != (3 if op in (Op.MAD_LOW, Op.MAD_HIGH) else 2):
        raise Unsupported(f"{len(args)} operands")
    carry = (context.carry(),)
    return DecodedStep(
        Op.CARRIED, kind=kind, bits=bits, flags=(int(op), int(adds)),
        out=(*out, *(carry if "cc" in words else ())), args=(*args, *(carry if adds else ())),
    )  # fmt: skip


def move(context: DecodeContext, instruction: ptx.Instruction) -> DecodedStep:
    """mov, which also packs and unpacks vectors."""
    type_ = type_of(instruction.modifiers[-1])
    target, value = instruction.operands
    if type_ is None:
        raise Unsupported("the type")
    kind, bits = type_
    target, value = context.vector(target), context.vector(value)
    if isinstance(target, ptx.Vector):
        part = bits // len(target.items)
        return DecodedStep(Op.UNPACK, kind=kind, bits=bits, flags=(part,),
                    out=context.results(target), args=(context.source(value, bits),))  # fmt: skip
    if isinstance(value, ptx.Vector):
        part = bits // len(value.items)
        return DecodedStep(Op.PACK, kind=kind, bits=bits, flags=(part,),
                    out=context.results(target), args=context.sources(value, part))  # fmt: skip
    return DecodedStep(Op.MOV, kind=kind, bits=bits, out=context.results(target),
                args=(context.source(value, bits, kind),))  # fmt: skip


def compare(context: DecodeContext, instruction: ptx.Instruction) -> DecodedStep:
    """setp and set."""
    modifiers, operands = instruction.modifiers, instruction.operands
    type_ = type_of(modifiers[-1])
    word = modifiers[0]
    if type_ is None or word not in COMPARISONS:
        return opaque(context, instruction)
    kind, bits = type_
    if kind is Kind.BFLOAT or (kind is Kind.FLOAT and bits == 16):
        return opaque(context, instruction)
    combination = next((c for c in modifiers[1:] if c in ("and", "or", "xor")), "")
    args = [context.source(operand, bits, kind) for operand in operands[1:3]]
    negated = 0
    if combination:
        third = operands[3]
        if isinstance(third, ptx.Negated):
            negated, third = 1, third.operand
        args.append(context.source(third, 1, Kind.PREDICATE))
    float_result = int(instruction.opcode == "set" and modifiers[-2].startswith("f"))
    flags = (COMPARISONS.index(word), COMBINATIONS.index(combination), negated, float_result)
    op = Op.SET if instruction.opcode == "set" else Op.SETP
    return DecodedStep(op, kind=kind, bits=bits, flags=(*flags, int("ftz" in modifiers)),
                out=outputs(context, operands[0]), args=tuple(args))  # fmt: skip


def convert(context: DecodeContext, instruction: ptx.Instruction) -> DecodedStep:
    """cvt between integers, and of one to f32 or f64, to nearest, and of these to one of 32 or 64
    bits; other conversions of floating-point numbers are not computed."""
    modifiers = instruction.modifiers
    if len(modifiers) < 2 or "pack" in modifiers:
        return opaque(context, instruction)
    to, from_ = type_of(modifiers[-2]), type_of(modifiers[-1])
    if to in _COMPUTED and from_ is not None and from_[0] in _INTEGERS and modifiers[0] == "rn":
        return DecodedStep(
            Op.TO_FLOAT, bits=to[1], flags=(from_[0], from_[1]),
            out=context.results(instruction.operands[0]),
            args=(context.source(instruction.operands[1], from_[1], from_[0]),),
        )  # fmt: skip
    rounding = next((word for word in modifiers if word in INTEGER_ROUNDINGS), None)
    whole = to is not None and to[0] in _INTEGERS and to[1] in (32, 64)
    if to is not None and whole and from_ in _COMPUTED and from_ is not None and rounding:
        flags = from_[1], INTEGER_ROUNDINGS.index(rounding), int("ftz" in modifiers)
        return DecodedStep(
            Op.TO_INTEGER, kind=to[0], bits=to[1], flags=flags,
            out=context.results(instruction.operands[0]),
            args=(context.source(instruction.operands[1], from_[1], from_[0]),),
        )  # fmt: skip
    if to is None or from_ is None or to[0] in _FLOATS or from_[0] in _FLOATS:
        return opaque(context, instruction)
    return DecodedStep(
        Op.CVT, kind=to[0], bits=to[1], flags=(from_[0], from_[1], int("sat" in modifiers),
               context.width(instruction.operands[0])),
        out=context.results(instruction.operands[0]),
        args=(context.source(instruction.operands[1], from_[1], from_[0]),),
    )  # fmt: skip


def funnel(context: DecodeContext, instruction: ptx.Instruction) -> DecodedStep:
    """Decode shf; flags: right instead of left, clamp instead of wrap."""
    flags = (int("r" in instruction.modifiers), int("clamp" in instruction.modifiers))
    args = tuple(context.source(operand, 32) for operand in instruction.operands[1:])
    return DecodedStep(
        Op.FUNNEL, flags=flags, out=context.results(instruction.operands[0]), args=args
    )


def find_bit(context: DecodeContext, instruction: ptx.Instruction) -> DecodedStep:
    """Decode bfind; flag: `.shiftamt`, the shift that normalises instead of the position."""
    kind, bits = type_of(instruction.modifiers[-1]) or (Kind.UNSIGNED, 32)
    return DecodedStep(
        Op.BFIND,
        kind=kind,
        bits=bits,
        flags=(int("shiftamt" in instruction.modifiers),),
        out=context.results(instruction.operands[0]),
        args=(context.source(instruction.operands[1], bits),),
    )


def permute(context: DecodeContext, instruction: ptx.Instruction) -> DecodedStep:
    """Decode prmt; the flag is the mode's index; raises Unsupported for an unknown mode."""
    modes = ("b32", "f4e", "b4e", "rc8", "ecl", "ecr", "rc16")
    word = instruction.modifiers[-1]
    if word not in modes:
        raise Unsupported("the mode")
    args = tuple(context.source(operand, 32) for operand in instruction.operands[1:])
    return DecodedStep(Op.PRMT, flags=(modes.index(word),),
                out=context.results(instruction.operands[0]), args=args)  # fmt: skip


def convert_address(context: DecodeContext, instruction: ptx.Instruction) -> DecodedStep:
    """cvta, in both directions."""
    modifiers, (target, value) = instruction.modifiers, instruction.operands
    space = space_of(modifiers)
    op = Op.FROM_GENERIC if "to" in modifiers else Op.TO_GENERIC
    bits = 32 if modifiers[-1] == "u32" else 64
    offset = 0
    if isinstance(value, ptx.Symbol):
        own, register = context.symbol(value)
        if own is MemorySpace.LOCAL:
            space = own
    else:
        register = context.source(value)
    return DecodedStep(
        op, bits=bits, flags=(space, offset), out=context.results(target), args=(register,)
    )


def is_space(context: DecodeContext, instruction: ptx.Instruction) -> DecodedStep:
    """Decode isspacep; flags: the window asked for, and whether of the CTA itself alone (PTX:
    `.shared` without more means `.shared::cta`)."""
    space = space_of(instruction.modifiers)
    own = space is MemorySpace.SHARED and "shared::cluster" not in instruction.modifiers
    return DecodedStep(Op.IS_SPACE, flags=(space, int(own)),
                out=context.results(instruction.operands[0]),
                args=(context.source(instruction.operands[1]),))  # fmt: skip


def map_address(context: DecodeContext, instruction: ptx.Instruction) -> DecodedStep:
    """mapa: the address in the shared memory of another CTA of the cluster."""
    target, value, rank = instruction.operands
    generic = not any(word.startswith("shared") for word in instruction.modifiers)
    if isinstance(value, ptx.Symbol):
        register = context.symbol(value)[1]
    else:
        register = context.source(value)
    bits = 64 if instruction.modifiers[-1].endswith("64") else 32
    return DecodedStep(Op.MAPA, bits=bits, flags=(int(generic),), out=context.results(target),
                args=(register, context.source(rank, 32)))  # fmt: skip


def get_rank(context: DecodeContext, instruction: ptx.Instruction) -> DecodedStep:
    """Decode getctarank; flag: the operand is a generic address, not a shared one."""
    generic = not any(word.startswith("shared") for word in instruction.modifiers)
    return DecodedStep(Op.GET_RANK, flags=(int(generic),),
                out=context.results(instruction.operands[0]),
                args=(context.source(instruction.operands[1]),))  # fmt: skip


# --------------------------------------------------------------------------------- control


def branch(context: DecodeContext, instruction: ptx.Instruction) -> DecodedStep:
    """Decode bra; flags: target instruction, `.uni`; raises Unsupported without a label."""
    target = instruction.operands[0]
    if not isinstance(target, ptx.PtxTarget):
        raise Unsupported("the target")
    return DecodedStep(Op.BRANCH, flags=(target.instruction, int("uni" in instruction.modifiers)))


def branch_indexed(context: DecodeContext, instruction: ptx.Instruction) -> DecodedStep:
    """Decode brx.idx; flags: the targets; raises Unsupported for an empty or unplaced table."""
    index, table = instruction.operands
    if not isinstance(table, ptx.Targets) or not table.instructions or min(table.instructions) < 0:
        raise Unsupported("the table")
    return DecodedStep(
        Op.BRANCH_INDEXED, flags=table.instructions, args=(context.source(index, 32),)
    )


# Functions of CUDA's device runtime, which no module has (CUDA C++ Programming Guide, Assertion and
# Formatted Output). A failed assertion ends the kernel. What vprintf prints is not seen by kernels;
# its result, in memory of the thread, is left unwritten, so unknown.
SYSTEM_CALLS = {"__assertfail": Op.TRAP, "vprintf": Op.NOP}


def call(context: DecodeContext, instruction: ptx.Instruction) -> DecodedStep:
    """A direct call of a function with a body; arguments are memory of the thread.

    The parameters of the function and the arguments of the caller are different variables, so the
    step carries the copies: flags (target, number of copies in, then from, to, bytes ...).
    """
    results: tuple[ptx.Operand, ...] = ()
    arguments: tuple[ptx.Operand, ...] = ()
    operands = list(instruction.operands)
    if operands and isinstance(operands[0], ptx.Group):
        results = operands.pop(0).items  # type: ignore[union-attr]
    name = operands.pop(0)
    if operands and isinstance(operands[0], ptx.Group):
        arguments = operands.pop(0).items  # type: ignore[union-attr]
    if not isinstance(name, ptx.Symbol):
        raise Unsupported("a call through a register")
    function = next((f for f in context.module.functions if f.name == name.name), None)
    if function is None:
        raise Unsupported("an unknown function")
    copies_in = _copies(context, arguments, function, function.parameters, inwards=True)
    copies_out = _copies(context, results, function, function.results, inwards=False)
    if function.declared:
        if not all(f.declared for f in context.module.functions if f.name == name.name):
            function = next(
                f for f in context.module.functions if f.name == name.name and not f.declared
            )
        elif function.name in SYSTEM_CALLS:
            return DecodedStep(SYSTEM_CALLS[function.name])
        else:
            raise Unsupported(f"the body of {function.name} is not in the module")
    flags = (function.start, len(copies_in), *sum(copies_in, ()), *sum(copies_out, ()))
    return DecodedStep(Op.CALL, flags=flags)


def _copies(
    context: DecodeContext,
    operands: tuple[ptx.Operand, ...],
    function: ptx.Function,
    variables: tuple[ptx.Variable, ...],
    *,
    inwards: bool,
) -> list[tuple[int, int, int]]:
    """(from, to, bytes) in local memory for each argument or result."""
    found = []
    for operand, variable in zip(operands, variables, strict=False):
        if not isinstance(operand, ptx.Symbol):
            raise Unsupported("an argument that is not a variable")
        outer = context.layout.find(context.function.name, operand.name)
        inner = context.layout.find(function.name, variable.name)
        given = next((v for v in context.function.variables if v.name == operand.name), None)
        if outer is None or inner is None or given is None:
            raise Unsupported("an argument")
        if given.size_bytes != variable.size_bytes:
            raise Unsupported("an argument of another size than the parameter")
        pair = (outer[1], inner[1]) if inwards else (inner[1], outer[1])
        found.append((*pair, variable.size_bytes))
    return found


def simple(op: Op) -> DecodedStep:
    """A step of `op` that has neither flags nor operands."""
    return DecodedStep(op)


def nothing(context: DecodeContext, instruction: ptx.Instruction) -> DecodedStep:
    """Hints: they change no register and no memory."""
    if instruction.opcode == "createpolicy":
        return DecodedStep(Op.OPAQUE, out=context.results(instruction.operands[0]))
    return DecodedStep(Op.NOP)
