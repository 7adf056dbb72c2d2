"""Footprints: boxes and the ranges they stand for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from titan.isa.simt.footprints import Box, Footprint, MemorySpace, merged, of_ranges, tensor_box

RUNS = st.lists(
    st.tuples(st.integers(0, 400), st.integers(0, 12)).map(lambda p: (p[0], p[0] + p[1])),
    max_size=20,
)


@given(RUNS)
def test_boxes_hold_the_bytes_of_the_ranges(runs):
    bytes_of = {byte for low, high in runs for byte in range(low, high)}
    footprint = of_ranges(MemorySpace.SHARED, 0, runs)
    assert {b for low, high in footprint.ranges() for b in range(low, high)} == bytes_of
    assert sum(box.size_bytes for box in footprint.boxes) == len(bytes_of)
    low, high = footprint.bounds
    assert (low, high) == ((min(bytes_of), max(bytes_of) + 1) if bytes_of else (0, 0))


def test_equal_runs_at_equal_distances_are_one_box():
    footprint = of_ranges(MemorySpace.GLOBAL, -1, [(i * 512, i * 512 + 128) for i in range(64)])
    assert footprint.boxes == (Box(0, 128, ((64, 512),)),)


def test_steps_multiply():
    box = Box(10, 2, ((2, 100), (3, 1000)))
    assert sorted(low for low, _ in box.runs()) == [10, 110, 1010, 1110, 2010, 2110]
    assert Footprint(MemorySpace.SHARED, 0, (box,)).bounds == (10, 2112)


def test_tensor_memory_is_lanes_of_512_columns():
    assert tensor_box(0, 32, 2, 4, 8).ranges() == (
        (32 * 2048 + 16, 32 * 2048 + 48),
        (33 * 2048 + 16, 33 * 2048 + 48),
    )


def test_ranges_that_touch_are_joined():
    assert merged([(4, 8), (0, 4), (9, 9), (10, 12), (11, 13)]) == ((0, 8), (10, 13))
