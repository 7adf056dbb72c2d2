"""Numbers beyond the bound at which a program may behave otherwise: those that its text names.

A condition such as `t != 40` or `2 * t < n + 20`, or a loop from 1000 on, changes what happens
beyond the numbers that a bounded check tries. Where no engine covers every number, happens-before
runs the numbers around each constant that conditions, bounds of loops and clamps compare with, and
where a quotient reaches it (`t // 16 != 3`). What it finds refutes; what it does not find proves
nothing, and is not part of the verdict.
"""

from __future__ import annotations

from titan.sync.named_numbers import named_numbers
from titan.sync.program import SyncProgram
from titan.verify.sizes import ROUNDS, Values, bound_of

FAR_MAX = 8192
_OTHERS = 2  # of a parameter that is not tried beyond the bound


def far_size_sets(program: SyncProgram) -> list[Values]:
    """Sizes around the constants of the text, the small ones first; each parameter, and all."""
    free = [item for item in program.parameters if item.value is None]
    bound = bound_of(program)
    found: dict[tuple[tuple[str, int], ...], None] = {}
    for constant in sorted(c for c in named_numbers(program) if bound < 2 * c + 2 and c <= FAR_MAX):
        for value in _around(constant, bound):
            for name in [item.name for item in free]:
                sizes = {item.name: max(item.minimum, _OTHERS) for item in free}
                sizes[name] = max(sizes[name], value)
                found[tuple(sizes.items())] = None
            found[tuple((item.name, max(item.minimum, value)) for item in free)] = None
    return [dict(item) for item in sorted(found, key=lambda item: sum(v for _, v in item))]


def _around(constant: int, bound: int) -> list[int]:
    """The number, the first rounds with it, one ring later, and where half the rounds pass it."""
    ring = bound // ROUNDS
    near = {constant, constant + 1, constant + 2, constant + 2 + ring, 2 * constant + 2}
    return sorted(value for value in near if bound < value <= FAR_MAX)
