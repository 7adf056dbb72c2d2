"""Compares what a kernel has written with what its tile program means.

The meaning is `titan/codegen/tile/semantics.py`: every operation exact, rounded once. A kernel may
differ by the order of its sums, by the approximations of the special functions (or of a polynomial
for a share of the exponentials, where it has one), and where these turn a rounding of an
intermediate value to a narrow type; the tolerance allows for that and for no more. Elements that
the program does not write must stay untouched.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from titan.codegen.tile.dtypes import FORMATS, INDEX_TYPE
from titan.codegen.tile.exponentials import polynomial_shares
from titan.codegen.tile.model import TileProgram
from titan.codegen.tile.semantics import shape_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

SUM_ERROR = 2.0**-16  # of f32 sums and special functions, relative to the largest output
POLYNOMIAL_ERROR = 2.0**-13.5  # `exp2_both` of titan_tcgen05.cuh


@dataclass(frozen=True, slots=True)
class OutputComparison:
    """`error` is the largest ratio of a difference to its tolerance: above 1 the kernel is wrong.

    `at` is where (tensor and index), `got` and `expected` the numbers there.
    """

    error: float
    at: str
    got: float
    expected: float

    @property
    def same(self) -> bool:
        """Whether every element is within its tolerance."""
        return self.error <= 1.0

    def describe(self) -> str:
        """One line for a person."""
        return (
            f"{self.at} is {self.got:g}, expected {self.expected:g}"
            f" ({self.error:.3g} times the tolerance)"
        )


_SUMMING = ("load", "read", "vector", "add", "multiply", "scale", "convert", "row_sum")
# Numbers of tiles, some of none, and lengths: below one tile, and beyond what rings hold.
SAMPLE_INTEGERS = (-1, 0, 1, 2, 3, 70, 150, 700)


def sample_inputs(
    tile: TileProgram, parameters: Mapping[str, int], seed: int
) -> dict[str, NDArray[np.float64]]:
    """Normal numbers for every input, powers of two for what scales; ascending integers, some of
    them outside, for lookups; positive ones for what divides, whose sum would be near zero."""
    import numpy as np

    random = np.random.default_rng(seed)
    sizes = dict(tile.sizes) | dict(parameters)
    made = {
        tensor.name: sample_numbers(random, tensor.dtype, shape_of(tensor, sizes))
        for tensor in tile.tensors
        if not tensor.output
    }
    dividing = _divisors(tile)
    return {name: np.abs(x) if name in dividing else x for name, x in made.items()}


def _divisors(tile: TileProgram) -> set[str]:
    """The tensors that a sum is made of, weighed or not, by which the result is divided."""
    operations = {operation.name: operation for operation in tile.operations}
    following = {carried.value.name: carried.next for carried in tile.carried}
    waiting = [name for one in tile.operations if one.kind == "reciprocal" for name in one.operands]
    seen: set[str] = set()
    found: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        if name in following:
            waiting.append(following[name])
        operation = operations.get(name)
        if operation is not None and operation.kind in _SUMMING:
            waiting += operation.operands
            if operation.view is not None:
                found.add(operation.view.tensor)
    return found


def sample_numbers(
    random: np.random.Generator, dtype: str, shape: tuple[int, ...]
) -> NDArray[np.float64]:
    """Numbers of one input."""
    import numpy as np

    if dtype == INDEX_TYPE:
        return np.sort(random.choice(SAMPLE_INTEGERS, shape)).astype(np.float64)
    if FORMATS[dtype].powers:
        return np.exp2(random.integers(-3, 4, shape))
    if FORMATS[dtype].pairs:
        return random.integers(0, 256, shape).astype(np.float64)
    return random.standard_normal(shape)


def difference(
    tile: TileProgram,
    name: str,
    got: NDArray[np.float32],
    expected: ArrayLike,
) -> OutputComparison:
    """The element of one output that is furthest from what it should be."""
    import numpy as np

    right = np.asarray(expected, np.float64)
    written = got.astype(np.float64)
    finite = np.isfinite(right)
    scale = float(np.abs(right[finite]).max(initial=0.0))
    dtype = next(tensor.dtype for tensor in tile.tensors if tensor.name == name)
    unit = 2.0 ** -FORMATS[dtype].mantissa
    tolerance = unit * np.abs(np.where(finite, right, 0.0)) + _inner_error(tile) * scale + 1e-30
    with np.errstate(invalid="ignore"):
        ratio = np.abs(written - right) / tolerance
    alike = (written == right) | (np.isnan(written) & np.isnan(right))
    ratio = np.where(alike, 0.0, np.where(np.isnan(ratio), np.inf, ratio))
    place = tuple(int(i) for i in np.unravel_index(int(np.argmax(ratio)), ratio.shape))
    text = f"{name}[{', '.join(map(str, place))}]"
    return OutputComparison(float(ratio[place]), text, float(written[place]), float(right[place]))


def furthest(
    tile: TileProgram,
    got: Mapping[str, NDArray[np.float32]],
    expected: Mapping[str, ArrayLike],
) -> OutputComparison:
    """`difference` of the output that is furthest from what it should be."""
    found = [difference(tile, name, got[name], right) for name, right in expected.items()]
    return max(found, key=lambda one: one.error)


def _inner_error(tile: TileProgram) -> float:
    """Relative to the largest output: of sums, and of narrow values on which an mma continues.

    The error of a polynomial turns one rounding in fifty to bf16, which moves that value by up to
    2^-7 of itself; a row of few keys has nothing to even that out.
    """
    narrow = {
        operation.name: operation.result.dtype
        for operation in tile.operations
        if operation.kind == "convert" and operation.result is not None
    }
    used = {
        narrow[name]
        for operation in tile.operations
        if operation.kind == "mma"
        for name in operation.operands
        if name in narrow
    }
    coarse = POLYNOMIAL_ERROR if polynomial_shares(tile) else 0.0
    part = 2 if coarse else 4
    rounding = max((2.0 ** -FORMATS[dtype].mantissa / part for dtype in used), default=0.0)
    return SUM_ERROR + coarse + rounding
