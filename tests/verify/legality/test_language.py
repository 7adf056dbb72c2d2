"""The sections of the language that only legality reads: what they give, and their faults."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from tests.verify.legality.kernels import kernel_of, text
from titan.language.kernel.decode import decode_text
from titan.language.kernel.model import Layout, MatrixInstruction, TensorMap
from titan.language.kernel.table import SWIZZLES, TARGETS, TENSOR_DTYPES
from titan.verify.legality.check import examine

BUFFERS = "{A: {stages: 2, tile: [64, 2 * 32], dtype: bf16, swizzle: 128B, base: 1024}}"
GOOD = text(
    buffers=BUFFERS,
    tensor_maps="{m: {buffer: A, global_shape: [4294967296, 64], global_strides: [8589934592], "
    "box: [64, 64], oob_fill: nan, global_alignment: 128}}",
    matrix_instructions="{i: {kind: wgmma, shape: [64, 256, 16], a: bf16, accumulator: f32, "
    "role: w}}",
    barriers="{full: {count: 1, base: 8}}",
    pools="{t: {available: 512, kind: tensor}}",
    queues="{g: wgmma}",
)


def test_what_is_said_is_kept():
    placement = kernel_of(GOOD).placement
    (layout,) = placement.layouts
    assert layout == Layout("A", (64, 64), "bf16", "128B", None, 1024)
    (found,) = placement.tensor_maps
    assert found == TensorMap(
        "m", "A", "bf16", (1 << 32, 64), (1 << 33,), (64, 64), swizzle="128B", oob_fill="nan",
        global_alignment=128,
    )  # fmt: skip
    assert placement.instructions == (
        MatrixInstruction("i", "wgmma", (64, 256, 16), "bf16", "bf16", "f32", 1, "w"),
    )
    assert dict(placement.kinds) == {"t": "tensor", "g": "wgmma"}
    assert placement.barrier_bases == (("full", 8),)


def test_places_of_keys_are_kept():
    (found,) = kernel_of(GOOD).placement.tensor_maps
    place = found.place("box")
    assert place is not None and place.excerpt()[place.start_column - 1 :].startswith("box")
    assert found.place("element_strides") == found.span


def test_sizes_can_be_used():
    source = text(
        sizes="{rows: 32}",
        buffers="{A: {tile: [rows, 64], dtype: f16, stride: rows * 128}}",
        tensor_maps="{m: {buffer: A, global_shape: [64, rows * 4], box: [64, rows]}}",
    )
    placement = kernel_of(source).placement
    assert placement.tensor_maps[0].box == (64, 32)
    assert placement.layouts[0].stride == 4096


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("buffer: A,", "buffer: B,", "TTN011"),
        ("box: [64, 64], ", "", "TTN007"),
        ("dtype: bf16, ", "", "TTN007"),
        ("box: [64, 64]", "box: []", "TTN009"),
        ("box: [64, 64]", "box: [64, x]", "TTN011"),
        ("box: [64, 64]", "box: [64, -1]", "TTN009"),
        ("oob_fill: nan", "oob_fill: one", "TTN010"),
        ("shape: [64, 256, 16]", "shape: [64, 256]", "TTN009"),
        ("kind: wgmma", "kind: mma", "TTN010"),
        ("role: w", "role: v", "TTN011"),
        ("a: bf16,", "", "TTN007"),
        ("base: 8}", "base: -8}", "TTN009"),
        ("kind: tensor", "kind: lanes", "TTN010"),
        ("{m: {buffer", "{A: {buffer", "TTN013"),
    ],
)
def test_faults_are_told(old: str, new: str, code: str):
    assert old in GOOD
    family, errors = decode_text(GOOD.replace(old, new))
    assert family is None and code in [item.code for item in errors]
    assert all(item.span is not None for item in errors)


def test_numbers_that_no_hardware_takes_come_through():
    source = GOOD.replace("box: [64, 64]", "box: [0, 100000]")
    assert kernel_of(source).placement.tensor_maps[0].box == (0, 100_000)


def test_no_numbers_make_a_rule_fail():
    """Whatever a file says, the rules answer with findings."""
    random_ = random.Random(4)
    numbers = [0, 1, 2, 3, 5, 8, 16, 64, 128, 255, 256, 257, 1 << 20, 1 << 33, 1 << 47]

    def some(low: int = 0) -> tuple[int, ...]:
        return tuple(random_.choice(numbers) for _ in range(random_.randint(low, 7)))

    def one(*words: str) -> str:
        return random_.choice(words)

    def maybe(low: int = 1) -> int | None:
        return random_.choice([None, *(number for number in numbers if number >= low)])

    kernel = kernel_of(GOOD)
    assert kernel.program is not None
    for _ in range(1500):
        item = TensorMap(
            "m", "A", random_.choice(TENSOR_DTYPES), some(1), some(), some(), some(),
            one("none", "16B", "32B"), one(*SWIZZLES), one("zero", "nan"), one("tile", "im2col"),
            maybe(0), maybe(0), some(), some(), maybe(),
        )  # fmt: skip
        layout = Layout(
            "A", (), one(*TENSOR_DTYPES), one(*SWIZZLES), maybe(), maybe(0), maybe(), maybe()
        )
        placement = replace(kernel.placement, tensor_maps=(item,), layouts=(layout,))
        target = random_.choice(TARGETS)
        found = examine(replace(kernel, placement=placement, target=target), kernel.program)
        assert all(told.code.startswith("TTN4") for told in (*found.errors, *found.warnings))
