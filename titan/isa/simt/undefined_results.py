"""Results that PTX leaves undefined, whatever the operands' other bits are.

A quotient or remainder by zero is an unspecified number of the machine, and a bit sought from a
place beyond the word (`fns`) is undefined: both are unknown in a run, and undefined where it is
followed what becomes of such values (`tracing/undefined_values.py`). What lanes give that do not
take part (`shfl.sync`) is decided there. `mul24` of numbers of more than 24 bits is unknown, too;
CUDA has it ignore the bits above, PTX does not say.

Source: PTX, "Integer Arithmetic Instructions".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from titan.isa.simt.operations import DecodedStep, Kind, Op
from titan.isa.simt.values import Scalar

Test = Callable[[Sequence[Scalar]], bool]
NARROW_BITS = 24
_WORD_BITS = 32


def undefined_test(step: DecodedStep) -> Test | None:
    """Whether known operands make the result undefined; None where none do."""
    if step.kind is Kind.FLOAT:
        return None
    if step.op in (Op.DIV, Op.REM):
        return lambda values: values[1] == 0
    if step.op is Op.FNS:
        return lambda values: _beyond(values[1], _WORD_BITS)
    return None


def open_test(step: DecodedStep) -> Test | None:
    """Whether known operands make the result unknown; None where none do."""
    if step.kind is not Kind.FLOAT and step.op in (Op.MUL_LOW, Op.MAD_LOW) and step.flags:
        wide = _beyond_signed if step.kind is Kind.SIGNED else _beyond
        return lambda values: any(wide(value, 1 << NARROW_BITS) for value in values[:2])
    return undefined_test(step)


def _beyond(value: Scalar, limit: int) -> bool:
    return isinstance(value, int) and value >= limit


def _beyond_signed(value: Scalar, limit: int) -> bool:
    """Of a word, with `limit` numbers on both sides of zero together."""
    return isinstance(value, int) and (value + limit // 2) % (1 << _WORD_BITS) >= limit
