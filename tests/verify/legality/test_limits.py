"""Limits of the target: refused by rule just beyond the limit, silent at it."""

from __future__ import annotations

import pytest

from tests.language.kernel.examples import library
from titan.language.kernel.decode import decode_text
from titan.language.kernel.table import TARGETS
from titan.target.limits import limits
from titan.verify.legality.check import examine
from titan.verify.lowering import sync_program

KERNEL = """\
titan: 1
kernel: k
target: TARGET
sizes: {depth: 2}
buffers:
  A: {stages: depth, bytes: BYTES, swizzle: SWIZZLE}
barriers: {full: {stages: depth, count: 1}}
named_barriers: {ids: {stages: IDS, threads: 32}}
roles:
  a: {warps: 1, registers: 40}
  b: {warpgroups: 2, registers: REGISTERS}
program: {a: [], b: []}
"""
GFX = {"TARGET": "gfx942", "IDS": "1", "REGISTERS": "128"}
VALUES = {
    "TARGET": "sm_90a", "BYTES": "1024", "SWIZZLE": "128B", "IDS": "16", "REGISTERS": "232",
}  # fmt: skip


def codes(**changed: str) -> list[str]:
    text = KERNEL
    for name, value in (VALUES | changed).items():
        text = text.replace(name, value)
    family, errors = decode_text(text)
    assert family is not None, errors
    kernel = family.kernels[0]
    return [item.code for item in examine(kernel, sync_program(kernel).program).errors]


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, []),
        ({"BYTES": "116216", "SWIZZLE": "none"}, []),  # 2 * 116216 + 16 = 227 KiB
        ({"BYTES": "116217", "SWIZZLE": "none"}, ["TTN407"]),
        (GFX | {"BYTES": "65536"}, ["TTN407"]),
        (GFX | {"TARGET": "gfx950", "BYTES": "65536"}, []),
        ({"BYTES": "1280"}, ["TTN408"]),
        ({"BYTES": "1280", "SWIZZLE": "32B"}, []),
        ({"IDS": "17"}, ["TTN405"]),
        (GFX, []),
        (GFX | {"IDS": "2"}, ["TTN405"]),
        (GFX | {"TARGET": "gfx90a", "IDS": "2"}, ["TTN405"]),
        (GFX | {"TARGET": "gfx1100", "BYTES": "32768"}, []),
        (GFX | {"TARGET": "gfx1100", "BYTES": "32769"}, ["TTN407"]),
        (GFX | {"TARGET": "gfx1100", "IDS": "2"}, ["TTN405"]),
        (GFX | {"TARGET": "gfx1201", "BYTES": "32768"}, []),
        (GFX | {"TARGET": "gfx1201", "BYTES": "32769"}, ["TTN407"]),
        ({"REGISTERS": "240"}, ["TTN406"]),  # 40 + 2 * 240 = 520 > 3 * 168
        ({"REGISTERS": "256"}, ["TTN406"]),
        ({"REGISTERS": "100"}, ["TTN406"]),
        ({"REGISTERS": "16"}, ["TTN406"]),
    ],
)
def test_limits(changed: dict[str, str], expected: list[str]):
    assert codes(**changed) == expected


def test_bulk_copies_move_multiples_of_16_bytes():
    text = """\
titan: 1
kernel: k
target: sm_90a
buffers: {A: {bytes: 24}}
rings: {r: {buffers: A, depth: 2}}
roles: {a: {}, b: {}}
program:
  a: [acquire: r[0], produce: r[0]]
  b: [wait: r[0], release: r[0]]
"""
    family, _ = decode_text(text)
    assert family is not None
    kernel = family.kernels[0]
    found = examine(kernel, sync_program(kernel).program).errors
    assert [item.code for item in found] == ["TTN408"]
    assert found[0].span is not None and found[0].span.start_line == 4


@pytest.mark.parametrize("text", [text for _, text in library()], ids=[n for n, _ in library()])
def test_the_library_is_legal(text: str):
    family, _ = decode_text(text)
    assert family is not None
    for kernel in family.kernels:
        found = examine(kernel, sync_program(kernel).program)
        assert (found.errors, found.warnings) == ((), ())


@pytest.mark.parametrize("target", TARGETS)
def test_no_target_is_judged_by_nothing(target: str):
    known = set(limits(target).values)
    assert known >= {
        "operations", "memory_reach", "barrier_forms", "shared_bytes", "threads_max",
        "threads_per_warp", "tensor_columns", "proxies", "proxy_fences",
    }  # fmt: skip
