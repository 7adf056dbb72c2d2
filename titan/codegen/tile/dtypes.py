"""Element types of tile programs and their exact values.

A value of a narrow type is held as the float32 number that it denotes: every number of every type
here is one of float32. `rounded` takes any numbers to the nearest of a type, ties to even, as
`cvt.rn` does; the fp8 types saturate at their largest number (`satfinite`, the only form that PTX
has), the others go to infinity. `encode` and `decode` are the bit patterns in memory.

Sources: IEEE 754 (f16, f32), PTX "Alternate floating point data formats", OCP 8-bit floating point
specification 1.0 (e4m3 without infinities, e5m2). NumPy is imported where it is used.

Types of tensors alone: `ue8m0`, powers of two that scale blocks of a product's operand (no sign, no
zero: what is below its least number becomes that); `e2m1x2`, two numbers of four bits in a byte,
the first one in its low half, held as the number of the byte; and `i32`, integers that lookups
read, held as float64.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float32]
    Doubles = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Format:
    """A binary floating-point type: sign, `exponent` bits, `mantissa` bits.

    `finite`: the type has no infinities and its largest pattern is the only NaN (e4m3).
    `saturating`: conversion of a number beyond the largest gives the largest. `powers`: the
    exponent is all there is, and its largest pattern is NaN (ue8m0). `pairs`: two numbers a byte.
    """

    name: str
    exponent: int
    mantissa: int
    finite: bool = False
    saturating: bool = False
    powers: bool = False
    pairs: bool = False

    @property
    def of_tensors(self) -> bool:
        """Whether threads compute with no values of the type."""
        return self.powers or self.pairs

    @property
    def bits(self) -> int:
        """The bits of a number."""
        return 8 if self.pairs else (not self.powers) + self.exponent + self.mantissa

    @property
    def bytes(self) -> int:
        """The bytes of a number."""
        return self.bits // 8

    @property
    def bias(self) -> int:
        """What is added to the exponent."""
        return (1 << (self.exponent - 1)) - 1

    @property
    def smallest_exponent(self) -> int:
        """The exponent of the smallest normal number."""
        return 1 - self.bias

    @property
    def largest(self) -> float:
        """The largest finite number."""
        top = (1 << self.exponent) - 1 - self.bias
        if self.finite:
            return float((2 - 2.0 ** (1 - self.mantissa)) * 2.0**top)
        return float((2 - 2.0**-self.mantissa) * 2.0 ** (top - 1))


FORMATS: dict[str, Format] = {
    made.name: made
    for made in (
        Format("f32", 8, 23),
        Format("f16", 5, 10),
        Format("bf16", 8, 7),
        Format("e4m3", 4, 3, finite=True, saturating=True),
        Format("e5m2", 5, 2, saturating=True),
        Format("ue8m0", 8, 0, finite=True, saturating=True, powers=True),
        Format("e2m1x2", 2, 1, finite=True, saturating=True, pairs=True),
    )
}
DTYPES = tuple(name for name, form in FORMATS.items() if not form.of_tensors)
INDEX_TYPE = "i32"
TENSOR_TYPES = (*FORMATS, INDEX_TYPE)


def bytes_of(dtype: str) -> int:
    """Bytes of one element. Raises KeyError."""
    return 4 if dtype == INDEX_TYPE else FORMATS[dtype].bytes


def rounded(values: object, dtype: str) -> Array:
    """The nearest numbers of the type, ties to even, as float32. NaN stays NaN.

    Integers are float64, because not all of them are numbers of float32.
    """
    import numpy as np

    exact = np.asarray(values, dtype=np.float64)
    if dtype == INDEX_TYPE:
        return cast("Array", np.clip(np.rint(exact), -(2.0**31), 2.0**31 - 1))
    form = FORMATS[dtype]
    if form.powers:
        return _powers(exact, form)
    if form.pairs:
        return np.clip(np.rint(np.nan_to_num(exact)), 0, 255).astype(np.float32)
    if dtype == "f32":
        with np.errstate(over="ignore"):
            return exact.astype(np.float32)
    with np.errstate(invalid="ignore", over="ignore"):
        _, exponent = np.frexp(exact)
        unit = np.maximum(exponent - 1, form.smallest_exponent) - form.mantissa
        near = np.ldexp(np.rint(np.ldexp(exact, -unit)), unit)
        if form.saturating:
            near = np.where(np.isnan(near), near, np.clip(near, -form.largest, form.largest))
        else:
            near = np.where(np.abs(near) > form.largest, np.copysign(np.inf, near), near)
    return np.asarray(np.where(np.isfinite(exact), near, _not_finite(exact, form)), np.float32)


def _powers(exact: Doubles, form: Format) -> Array:
    """The nearest powers of two, the larger one of two that are as near."""
    import numpy as np

    with np.errstate(invalid="ignore", over="ignore"):
        least = 2.0**-form.bias
        size, exponent = np.frexp(np.clip(exact, least, 2.0**form.bias))
        near = np.ldexp(np.where(size >= 0.75, 1.0, 0.5), exponent)
        near = np.minimum(near, 2.0**form.bias)
    return np.asarray(np.where(np.isnan(exact), exact, near), np.float32)


def _not_finite(exact: Doubles, form: Format) -> Doubles:
    import numpy as np

    if not form.saturating:
        return exact
    return np.where(np.isnan(exact), exact, np.copysign(form.largest, exact))


def encode(values: object, dtype: str) -> NDArray[np.unsignedinteger]:
    """The bit patterns of numbers of the type (rounded first), as unsigned integers."""
    import numpy as np

    numbers = rounded(values, dtype)
    if dtype == INDEX_TYPE:
        return numbers.astype(np.int32).view(np.uint32)
    form = FORMATS[dtype]
    if form.pairs:
        return numbers.astype(np.uint8)
    if form.powers:
        _, exponent = np.frexp(np.where(np.isnan(numbers), 1.0, numbers).astype(np.float64))
        top = (1 << form.exponent) - 1
        return np.where(np.isnan(numbers), top, exponent - 1 + form.bias).astype(np.uint8)
    kind = {8: np.uint8, 16: np.uint16, 32: np.uint32}[form.bits]
    if dtype == "f32":
        return numbers.view(np.uint32).copy()
    if dtype == "f16":
        return numbers.astype(np.float16).view(np.uint16)
    size = np.abs(np.where(np.isfinite(numbers), numbers, 0.0)).astype(np.float64)
    _, exponent = np.frexp(size)
    normal = size >= 2.0**form.smallest_exponent
    scale = np.where(normal, exponent - 1, form.smallest_exponent) - form.mantissa
    units = np.ldexp(size, -scale).astype(np.int64)
    field = np.where(normal, exponent - 1 + form.bias, 0)
    patterns = np.where(normal, (field << form.mantissa) + units - (1 << form.mantissa), units)
    top = ((1 << form.exponent) - 1) << form.mantissa
    nothing = top | ((1 << form.mantissa) - 1)
    patterns = np.where(np.isinf(numbers), top, patterns)
    patterns = np.where(np.isnan(numbers), nothing, patterns)
    sign = np.signbit(numbers).astype(np.int64) << (form.bits - 1)
    return (patterns | sign).astype(kind)


def decode(patterns: object, dtype: str) -> Array:
    """The numbers that bit patterns of the type denote, as float32."""
    import numpy as np

    form = FORMATS[dtype]
    codes = np.asarray(patterns).astype(np.int64)
    if form.pairs:
        return codes.astype(np.float32)
    if form.powers:
        top = (1 << form.exponent) - 1
        powers = np.ldexp(1.0, np.minimum(codes, top - 1) - form.bias)
        return np.where(codes == top, np.nan, powers).astype(np.float32)
    fraction = codes & ((1 << form.mantissa) - 1)
    field = (codes >> form.mantissa) & ((1 << form.exponent) - 1)
    negative = (codes >> (form.bits - 1)) & 1
    whole = np.where(field > 0, fraction + (1 << form.mantissa), fraction).astype(np.float64)
    size = np.ldexp(whole, np.maximum(field, 1) - form.bias - form.mantissa)
    top = field == (1 << form.exponent) - 1
    if form.finite:
        size = np.where(top & (fraction == (1 << form.mantissa) - 1), np.nan, size)
    else:
        size = np.where(top, np.where(fraction == 0, np.inf, np.nan), size)
    return np.where(negative == 1, -size, size).astype(np.float32)


def unpacked(pairs: object) -> Array:
    """The numbers of bytes of `e2m1x2` [rows, bytes], two columns for each."""
    import numpy as np

    sizes = np.array([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])
    numbers = np.concatenate([sizes, -sizes])
    codes = np.asarray(pairs).astype(np.int64)
    both = np.stack([numbers[codes & 15], numbers[codes >> 4]], axis=-1)
    return both.reshape(codes.shape[0], -1).astype(np.float32)
