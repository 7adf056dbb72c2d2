"""Which numbers PTX allows where an instruction has to be given one of few.

Code with another number does not assemble, so it is no code that the machine runs. `FORMS` is
written after PTX ISA 9, the sections of the instructions; a row names a form by the instruction, by
words that it carries and by such (`!`) that it lacks, the operand counted from the front or, if
negative, from the back, and the numbers. An operand that is a register is none of the table's: what
holds of its value is judged where it is executed.
"""

from __future__ import annotations

from collections.abc import Container
from functools import lru_cache
from typing import NamedTuple

from titan.isa.ptx import module as ptx
from titan.isa.simt.decode_context import Unsupported
from titan.isa.simt.mbarriers import LIMIT


class FormImmediate(NamedTuple):
    """The numbers that one operand of a form may be, and how they are described."""

    form: str
    operand: int
    allowed: Container[int]
    described: str


_COLUMNS = frozenset({32, 64, 128, 256, 512}), "a power of two from 32 to 512"
_REGISTERS = range(24, 257, 8), "a multiple of 8 from 24 to 256"
_BARRIER = range(16), "from 0 to 15"
_THREADS = range(0, 1 << 31, 32), "a multiple of 32"
_ARRIVING = range(32, 1 << 31, 32), "a multiple of 32, and not 0"
_ARRIVALS = range(1, LIMIT + 1), "from 1 to 2^20 - 1"
_PARITY = (0, 1), "0 or 1"
_BULK = range(0, LIMIT, 16), "a multiple of 16 below 2^20"
_SIGN = (1, -1), "1 or -1"
_TRANSPOSED = (0, 1), "0 or 1"
_OF_CTA = "!warp !cluster"
FORMS = (
    *(
        FormImmediate(f"{opcode} {verb} {_OF_CTA}", operand, *numbers)
        for opcode in ("bar", "barrier")
        for verb, operand, numbers in (
            ("sync", 0, _BARRIER),
            ("sync", 1, _THREADS),
            ("arrive", 0, _BARRIER),
            ("arrive", 1, _ARRIVING),
            ("red", 1, _BARRIER),
        )
    ),
    FormImmediate("setmaxnreg", 0, *_REGISTERS),
    FormImmediate("tcgen05 alloc", 1, *_COLUMNS),
    FormImmediate("tcgen05 dealloc", 1, *_COLUMNS),
    FormImmediate("tcgen05 mma kind::f16", -1, range(16), "from 0 to 15"),
    FormImmediate("tcgen05 mma kind::tf32", -1, range(16), "from 0 to 15"),
    FormImmediate("wgmma wait_group", 0, range(1 << 31), "no negative number"),
    FormImmediate("mbarrier arrive !expect_tx", -1, *_ARRIVALS),
    FormImmediate("mbarrier arrive_drop !expect_tx", -1, *_ARRIVALS),
    FormImmediate("mbarrier test_wait parity", 2, *_PARITY),
    FormImmediate("mbarrier try_wait parity", 2, *_PARITY),
    FormImmediate("cp async ca", 2, (4, 8, 16), "4, 8 or 16"),
    FormImmediate("cp async cg", 2, (16,), "16"),
    FormImmediate("cp async ca", 3, range(17), "at most 16"),
    FormImmediate("cp async cg", 3, range(17), "at most 16"),
    FormImmediate("cp async bulk !tensor !prefetch", 2, *_BULK),
    FormImmediate("cp async bulk prefetch !tensor", 1, *_BULK),
    FormImmediate("applypriority", 1, (128,), "128"),
    FormImmediate("cp reduce async bulk !tensor", 2, *_BULK),
    FormImmediate("fence proxy tensormap::generic acquire", 1, (128,), "128"),
    *(
        FormImmediate(f"wgmma mma_async {kind} !sp", operand, *numbers)
        for kind in ("f16", "bf16", "tf32", "e4m3", "e5m2")
        for operand, numbers in ((4, _SIGN), (5, _SIGN))
    ),
    *(
        FormImmediate(f"wgmma mma_async {kind} !sp", operand, *_TRANSPOSED)
        for kind in ("f16", "bf16")
        for operand in (6, 7)
    ),
)


@lru_cache(maxsize=4096)
def _rows_of(opcode: str, modifiers: tuple[str, ...]) -> tuple[FormImmediate, ...]:
    """The rows whose form a name has: all of its words, and none that begins with `!`."""
    return tuple(
        row
        for row in FORMS
        for first, *words in (row.form.split(" "),)
        if first == opcode
        and all((word.removeprefix("!") in modifiers) is not word.startswith("!") for word in words)
    )


def check_immediates(instruction: ptx.Instruction) -> None:
    """Raises Unsupported for a number that PTX does not allow there."""
    operands = instruction.operands
    for row in _rows_of(instruction.opcode, instruction.modifiers):
        if not -len(operands) <= row.operand < len(operands):
            continue
        given = operands[row.operand]
        if isinstance(given, ptx.Immediate) and not given.type and given.value not in row.allowed:
            raise Unsupported(
                f"operand {row.operand + 1} is {given.value}; PTX has {row.described}"
            )
