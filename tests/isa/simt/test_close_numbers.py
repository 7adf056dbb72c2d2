"""Which stored values count as close together, against the distance of the numbers in NumPy."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from titan.isa.simt.lane_order import nearly_equal

FORMATS = {2: np.float16, 4: np.float32, 8: np.float64}
LEAST = 2.0**-10


def bits_of(value, size):
    return int(np.array(value, FORMATS[size]).view(f"u{size}"))


@settings(max_examples=300, deadline=None)
@given(st.sampled_from((4, 8)), st.floats(0.5, 1e30), st.integers(-14, 0), st.booleans())
def test_numbers_count_as_close_by_their_distance(size, number, power, below):
    one = FORMATS[size](number)
    other = FORMATS[size](number * (1 + (-1 if below else 1) * 2.0**power))
    found = nearly_equal(bits_of(one, size), bits_of(other, size), size)
    apart = abs(float(one) - float(other)) / max(abs(float(one)), abs(float(other)))
    if apart < LEAST / 2:
        assert found
    if apart > 2 * LEAST and size == 8:
        assert not found or halves_close(one, other)
    assert found == nearly_equal(bits_of(other, size), bits_of(one, size), size)


def halves_close(one, other):
    """Whether two f64 are close as pairs of f32, too, which a store does not tell apart."""
    pairs = [np.array([value]).view(np.float32) for value in (one, other)]
    return all(
        abs(float(x) - float(y)) <= 2 * LEAST * abs(float(x)) for x, y in zip(*pairs, strict=True)
    )


@settings(max_examples=300, deadline=None)
@given(st.integers(0, (1 << 23) - 1), st.integers(0, (1 << 23) - 1))
def test_integers_of_everyday_size_are_not_close(one, other):
    assert one == other or not nearly_equal(one, other, 4)
