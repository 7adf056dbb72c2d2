"""What `s_waitcnt` says: the counters that it waits for, and how many operations may be left."""

from __future__ import annotations

import re

from titan.isa.gcn.module import Literal, SymbolOperand, integer_of
from titan.isa.waves.state import Refused

_COUNTERS = re.compile(r"(vmcnt|lgkmcnt|expcnt)(_sat)?\((\w+)\)")
_NO_WAIT = {"vmcnt": 63, "lgkmcnt": 15, "expcnt": 7}


def waits_of(operand: object) -> list[tuple[str, int]]:
    """The counters that an `s_waitcnt` waits for, with how many operations may be left."""
    if isinstance(operand, Literal):
        return _of_number(operand.value)
    text = operand.name if isinstance(operand, SymbolOperand) else ""
    whole = integer_of(text.strip())
    if whole is not None:
        return _of_number(whole)
    limits: dict[str, int] = {}
    for counter, _, value in _COUNTERS.findall(text):
        limit = integer_of(value)
        if limit is None:
            raise Refused("a wait of an unknown form")
        limits[counter] = limit  # of two for one counter the later one is encoded
    if not limits:
        raise Refused("a wait of an unknown form")
    return [(counter, limit) for counter, limit in limits.items() if limit < _NO_WAIT[counter]]


def _of_number(value: int) -> list[tuple[str, int]]:
    parts = {
        "vmcnt": value & 15 | value >> 10 & 0x30,
        "expcnt": value >> 4 & 7,
        "lgkmcnt": value >> 8 & 15,
    }
    return [(name, limit) for name, limit in parts.items() if limit < _NO_WAIT[name]]
