"""Tensors of a changed launch that would run into each other get memory of their own."""

from __future__ import annotations

from dataclasses import replace

from titan.frontends.ptx.spread import ALIGNMENT, APART, spread
from titan.frontends.ptx.sweep import ParameterWord, changed
from titan.isa.simt.launch import Allocation, Launch, LaunchParameter, LaunchTensorMap

A, B = 0x10000, 0x18000  # two tensors of 64 rows of 256 columns of 16 bits
BELOW = LaunchTensorMap(6, A, (256, 64), (512,), (64, 64), (1, 1))
ABOVE = replace(BELOW, base=B)


def launch(*maps: LaunchTensorMap, words: tuple[int, ...] = (256,)) -> Launch:
    parameters = tuple(LaunchParameter(word.to_bytes(8, "little")) for word in words)
    named = {bytes([number]) * 128: item for number, item in enumerate(maps)}
    return Launch("k", (1, 1, 1), (32, 1, 1), parameters=parameters, tensor_maps=named)


def longer(old: Launch, columns: int) -> Launch:
    return changed(old, {ParameterWord(0, 0, 8, 256): columns})


def bases(launch: Launch) -> list[int]:
    return [item.base for item in launch.maps()]


def test_a_tensor_that_grows_over_another_moves_with_the_pointers_into_it():
    found = longer(launch(BELOW, ABOVE, words=(256, A, A + 512, B, 7)), 1024)
    low, high = bases(found)
    assert high == B and low % ALIGNMENT == 0 and low >= B + 64 * 2048
    words = [int.from_bytes(item.data, "little") for item in found.parameters]
    assert words == [1024, low, low + 512, B, 7]


def test_what_does_not_grow_into_others_stays():
    assert bases(longer(launch(BELOW, ABOVE), 128)) == [A, B]
    far = replace(ABOVE, base=1 << 30)
    assert bases(longer(launch(BELOW, far), 1024)) == [A, 1 << 30]


def test_tensors_that_shared_memory_go_on_to_share_it():
    inside = replace(BELOW, base=A + 512)
    twice = replace(BELOW, box=(64, 8))
    assert bases(longer(launch(BELOW, inside, twice), 1024)) == [A, A + 512, A]


def test_several_that_grow_are_all_apart():
    third = replace(BELOW, base=B + 0x8000)
    made = longer(launch(BELOW, ABOVE, third), 4096)
    low, middle, high = sorted(bases(made))
    size = 64 * 8192
    assert low + size <= middle and middle + size <= high
    assert spread(made, made) == made


def test_plain_pointers_of_a_launch_with_more_trips_are_apart():
    """Equal ones stay equal, those into maps stay, and so do all of a launch with fewer trips."""
    low, high = 0x5588_0000_1000, 0x5588_0000_9400
    given = launch(BELOW, words=(256, high, low, high, A + 64, 5))
    assert longer(given, 128).parameters[1:] == given.parameters[1:]
    made = longer(given, 1024)
    words = [int.from_bytes(item.data, "little") for item in made.parameters]
    assert words[2] == low and words[1] == words[3] == high + APART
    assert words[0] == 1024 and words[5] == 5
    assert bases(made)[0] <= words[4] < bases(made)[0] + 512


def test_memory_that_the_launch_bounds_or_knows_stays():
    low, high = 0x5588_0000_1000, 0x5588_0000_9400
    given = launch(words=(256, low, high))
    listed = replace(given, allocations=(Allocation(low, 1 << 20),))
    assert longer(listed, 1024).parameters[1:] == given.parameters[1:]
    known = replace(given, memory={high: b"abcd"})
    assert longer(known, 1024).parameters[2] == given.parameters[2]
