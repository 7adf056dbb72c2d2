"""Tiles of buffers in one storage: what one buffer has written is no tile of another."""

from __future__ import annotations

from itertools import product

import pytest

import titan
from titan.language.kernel.decode import decode_text
from titan.sync.contents import as_engines_see, contents_of, numbered
from titan.verify.lowering import sync_program

NAMES = "ABC"
KERNEL = """\
titan: 1
kernel: k
target: sm_90a
sizes: {n: any}
buffers:
  A: {bytes: 64, storage: m, units: 2, initial: 7}
  B: {bytes: 64, storage: m, units: 2}
  C: {bytes: 32, storage: m, offset: 1}
roles: {w: {warps: 1}}
program:
  w:
    - for: t in 0..n
      do: [STATEMENTS]
"""


def kernel(*statements: str) -> str:
    return KERNEL.replace("STATEMENTS", ", ".join("{" + item + "}" for item in statements))


@pytest.mark.parametrize(
    ("first", "second", "read"), list(product(NAMES, NAMES, NAMES)), ids="".join
)
def test_a_read_sees_its_own_buffer_alone(first: str, second: str, read: str):
    """Two stores and a load: right where the load names the buffer of the last store to it."""
    text = kernel(f"store: {first} = t", f"store: {second} = t", f"load: {read} = t")
    units = {"A": {0, 1}, "B": {0, 1}, "C": {1}}
    held = dict.fromkeys(range(2), "A")
    for name in (first, second):
        held |= dict.fromkeys(units[name], name)
    right = all(held[unit] == read for unit in units[read])
    for engine in ("explore", "order", "reference"):
        found = titan.verify(text, engine=engine, sizes={"n": 3})
        assert found.verified == right, (engine, str(found))
        assert right or [item.code for item in found.diagnostics] == ["TTN204"]


def test_what_is_there_at_the_start_is_of_the_buffer_that_says_so():
    assert titan.verify(kernel("load: A = 7")).verified
    assert not titan.verify(kernel("load: B = 7", "store: B = t")).verified


def test_reads_without_a_tile_see_what_any_has_written():
    assert titan.verify(kernel("store: B = t", "load: A")).verified


def test_reports_name_the_buffer():
    text = str(titan.verify(kernel("store: B = t + 4", "load: A = t + 4")))
    assert "holds tile 4 of B where tile 4 of A is expected" in text
    assert "store B (tile 4)" in text


def test_programs_are_numbered_once_and_others_not_at_all():
    family, _ = decode_text(kernel("store: A = t", "store: B = t", "load: A = t"))
    assert family is not None
    program = sync_program(family.kernels[0]).program
    assert contents_of(program) == {"m": ("A", "B", "C")}
    assert as_engines_see(program) == program
    assert [numbered(buffer, 5) for buffer in program.buffers] == [15, 16, 17]
    family, _ = decode_text(kernel("store: A = t", "store: B = t", "load: A"))
    assert family is not None
    assert contents_of(sync_program(family.kernels[0]).program) == {}
