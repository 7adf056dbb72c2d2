"""The rules against the plain address arithmetic on thousands of layouts, and padding.

The layouts are drawn with a fixed seed over bases, strides, types, boxes, element strides, swizzle
modes and tensors. The codes that the rules tell must be exactly the ones that the enumeration of
addresses finds.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from tests.verify.legality.addresses import MEMORY, Copy, bytes_written, wrong
from titan.language.kernel.model import Kernel, Layout, Placement, RoleShape, TensorMap
from titan.sync.program import Buffer, Role, SyncProgram
from titan.target.limits import TargetLimits, Value, limits
from titan.verify.legality.case import Case
from titan.verify.legality.check import examine
from titan.verify.legality.padding import padded, padding

NUMBER = 6000
TYPES = {1: "u8", 2: "bf16", 4: "f32", 8: "f64"}


def kernel_of(copy: Copy, layout: Layout | None = None) -> Kernel:
    name = TYPES[copy.element_bytes]
    layout = layout or Layout(
        "A", (), name, copy.swizzle, None, copy.base, copy.stride if copy.stages > 1 else None
    )
    item = TensorMap(
        "m", "A", name, copy.tensor, copy.tensor_strides, copy.box, copy.steps,
        swizzle=copy.swizzle, global_alignment=copy.tensor_base,
    )  # fmt: skip
    placement = Placement((layout,), (item,))
    return Kernel("k", "sm_90a", "k", (), (RoleShape("w", 1, 32),), placement=placement)


def program_of(copy: Copy) -> SyncProgram:
    buffers = (Buffer("A", copy.stages, bytes_per_stage=copy.size),)
    return SyncProgram("k", "sm_90a", (Role("w", ()),), buffers=buffers)


def told(copy: Copy, layout: Layout | None = None, known: TargetLimits | None = None) -> set[str]:
    found = examine(kernel_of(copy, layout), program_of(copy), known)
    return {item.code for item in found.errors}


def drawn(random_: random.Random) -> Copy:
    """A layout that is legal in most respects and just beside it in a few."""

    def usual(good: list[int], all_: list[int]) -> int:
        return random_.choice(good if random_.random() < 0.75 else all_)

    swizzle = random_.choice(["none", "32B", "64B", "128B"])
    element = random_.choice([1, 2, 4, 8])
    span = {"none": 256, "32B": 32, "64B": 64, "128B": 128}[swizzle]
    fitting = [size for size in (16, 32, 48, 64, 96, 128, 256) if size <= span]
    row = usual(fitting, [8, 16, 24, 32, 40, 48, 64, 96, 128, 144, 160, 256, 512])
    box = (max(1, row // element), usual([1, 8, 16, 32], [1, 3, 8, 17, 64, 256, 257]))
    steps = (1, usual([1], [1, 2, 3, 8]))
    if random_.random() < 0.3:
        box, steps = (*box, random_.choice([1, 2, 5])), (*steps, random_.choice([1, 2]))
    copy = Copy(0, 1, 0, 1, swizzle, element, box, steps, (1,), 16, ())
    size = max(16, len(copy.rows()) * box[0] * element * usual([1], [1, 2, 3]))
    if random_.random() < 0.05:
        size = max(16, size - random_.choice([16, 64]))
    repeat = {"none": 128, "32B": 256, "64B": 512, "128B": 1024}[swizzle]
    whole = -(-size // repeat) * repeat
    strides = [size, size + 16, size + 64, size + 128, whole, whole + 256, whole + 512, size // 2]
    inner = box[0] * random_.choice([1, 3])
    across = -(-inner * element // 16) * 16
    rows, planes = box[1] * 2, 3
    stride = usual([across, across + 16], [inner * element, across + 8, across + 4])
    tensor: tuple[int, ...] = (inner, rows)
    tensor_strides: tuple[int, ...] = (stride,)
    if len(box) == 3:
        tensor = (inner, rows, planes)
        tensor_strides = (stride, stride * rows + usual([0, 16], [0, 8, 16]))
    return Copy(
        usual([0, repeat, 4 * repeat], [16, 64, 128, 256, 512, 1024, MEMORY - 1024]),
        random_.choice([1, 2, 3, 4]), max(1, usual([whole], strides)), size, swizzle, element, box,
        steps, tensor, usual([16, 128], [4, 8, 16, 256]), tensor_strides,
    )  # fmt: skip


@cache
def layouts() -> tuple[Copy, ...]:
    random_ = random.Random(20_26)
    return tuple(drawn(random_) for _ in range(NUMBER))


def test_the_rules_say_what_the_addresses_say():
    seen: Counter[str] = Counter()
    for copy in layouts():
        expected = wrong(copy)
        assert told(copy) == expected, copy
        seen.update(expected or {"legal"})
    wanted = {"legal", "TTN407", "TTN408", "TTN410", "TTN411", "TTN413"}
    assert set(seen) == wanted and min(seen.values()) > 50, seen
    assert seen["legal"] > NUMBER // 10, seen


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("tensor_alignment", 64),
        ("tensor_alignment", 256),
        ("swizzle_repeat", {"32B": 256, "64B": 512, "128B": 512}),
        ("swizzle_repeat", {"32B": 256, "64B": 1024, "128B": 1024}),
        ("swizzle_repeat", {"32B": 128, "64B": 512, "128B": 1024}),
        ("swizzle_span", {"32B": 32, "64B": 128, "128B": 128}),
        ("swizzle_span", {"32B": 32, "64B": 64}),
        ("box_row_multiple", 8),
        ("box_max", 257),
        ("global_alignment", 8),
        ("global_stride_multiple", 8),
        ("global_stride_multiple", 32),
        ("shared_bytes", 232_449 + 64),
    ],
)
def test_a_wrong_number_would_be_noticed(name: str, value: Value):
    right = limits("sm_90a")
    known = replace(right, values=right.values | {name: value})
    assert any(told(copy, known=known) != told(copy) for copy in layouts()[:3000])


def test_a_padded_layout_is_legal_and_no_smaller_stride_is():
    tried = 0
    for copy in layouts():
        if wrong(copy) != {"TTN408"}:
            continue
        kernel, program = kernel_of(copy), program_of(copy)
        case = Case(kernel, program, limits("sm_90a"))
        memory = case.memories["A"]
        found, layout = padding(case, memory), padded(case, memory)
        assert layout.base is not None
        stride = layout.stride or copy.stride
        better = replace(copy, base=layout.base, stride=stride)
        left = wrong(better)
        assert told(better, layout) == left
        if "TTN408" in left:  # the boxes in a stage; no distance of stages mends that
            assert len(copy.rows()) * copy.box[0] * copy.element_bytes % 128
            continue
        tried += 1
        assert left <= (set() if found.fits else {"TTN407"})
        assert found.fits == ("TTN407" not in left)
        grown = (better.base - copy.base) + (copy.stages - 1) * (stride - copy.stride)
        assert found.cost == grown
        smaller = range(copy.stride, stride, 16) if copy.stages > 1 else ()
        assert all("TTN408" in wrong(replace(better, stride=other)) for other in smaller)
    assert tried > 100


def test_stages_of_a_legal_layout_are_permuted_within_themselves():
    legal = [copy for copy in layouts() if not wrong(copy)]
    for copy in legal[:300]:
        taken = np.concatenate([bytes_written(copy, stage) for stage in range(copy.stages)])
        assert len(np.unique(taken)) == copy.stages * copy.size
        if copy.size % 1024 == 0:
            for stage in range(copy.stages):
                start, written = copy.base + stage * copy.stride, bytes_written(copy, stage)
                assert (written.min(), written.max()) == (start, start + copy.size - 1)


@pytest.mark.parametrize(
    ("mode", "lines"),
    [  # the atoms of the first eight lines, as the tables of the PTX ISA show them
        ("32B", [[0, 1], [1, 0]]),
        ("64B", [[0, 1, 2, 3], [1, 0, 3, 2], [2, 3, 0, 1], [3, 2, 1, 0]]),
        ("128B", [[0, 1, 2, 3, 4, 5, 6, 7], [1, 0, 3, 2, 5, 4, 7, 6], [2, 3, 0, 1, 6, 7, 4, 5]]),
    ],
)
def test_the_address_map_is_that_of_the_tables(mode: str, lines: list[list[int]]):
    copy = Copy(0, 1, 1024, 1024, mode, 1, (16, 64), (1, 1), (16, 64), 16, (16,))
    atoms = bytes_written(copy, 0)[::16] // 16
    for number, line in enumerate(lines):
        assert [atom - 8 * number for atom in atoms[8 * number :][: len(line)]] == line
