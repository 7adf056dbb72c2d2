"""`fill_tile` of the device header itself, compiled for the CPU: what a stage holds afterwards.

The emulation has a version of its own; this is the text that a GPU runs. Global memory is as large
as the tensor, to the byte, and an address sanitizer watches it.
"""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from tests.sampling import sampled
from titan.foundation.resources import root

HEADER = root("backends") / "sm_90a" / "titan_device.cuh"
NAMES = ("swizzled", "store_shared128", "load_global_bits", "fill_tile")
SHIM = """
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#define TITAN_DEVICE static inline
#define TITAN_CONSTANT static constexpr
#define TITAN_UNROLL
#define TITAN_NO_UNROLL
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
struct alignas(16) uint4 { u32 x, y, z, w; };
static uint4 make_uint4(u32 x, u32 y, u32 z, u32 w) { return {x, y, z, w}; }
struct f32 { static constexpr int bytes = 4; };
struct bf16 { static constexpr int bytes = 2; };
struct e4m3 { static constexpr int bytes = 1; };
"""
MAIN = """
// A matrix of `rows` x `columns` behind `outer` others, `skip` elements after an aligned start.
template <class Type, int Swizzle, int Rows, int Columns>
static int wrong(int rows, int columns, int row0, int column0, int outer, int skip, bool inside) {
  constexpr int size = Type::bytes, panel_columns = Swizzle / size;
  constexpr u32 stride = Rows * Swizzle;
  const int count = (outer + 1) * rows * columns;
  u8* const memory = (u8*)malloc((count + skip) * size);
  u8* const base = memory + skip * size;
  for (int i = 0; i < count * size; ++i) base[i] = (u8)(i * 37 + i / 251 + 1);
  u8* const tile = (u8*)aligned_alloc(1024, Rows * Columns * size);
  memset(tile, 0xee, Rows * Columns * size);
  for (int thread = 0; thread < 128; ++thread)
    fill_tile<Type, Swizzle, Rows, Columns, 128>(tile, stride, base, outer, inside, rows, columns,
                                                 row0, column0, thread);
  int bad = 0;
  for (int r = 0; r < Rows; ++r)
    for (int c = 0; c < Columns; ++c) {
      const int row = row0 + r, column = column0 + c;
      u8 meant[4] = {};
      if (inside && row >= 0 && row < rows && column >= 0 && column < columns)
        memcpy(meant, base + (((long long)outer * rows + row) * columns + column) * size, size);
      const u32 offset = r * Swizzle + c % panel_columns * size;
      const u8* const found = tile + c / panel_columns * stride + swizzled<Swizzle>(offset);
      bad += memcmp(meant, found, size) != 0;
    }
  free(tile);
  free(memory);
  return bad;
}
template <class Type, int Swizzle, int Rows, int Columns>
static void all(const char* name) {
  int cases = 0, bad = 0;
  for (int columns : {1, 7, 8, Columns - 1, Columns, Columns + 3, 2 * Columns + 16 / Type::bytes})
    for (int rows : {1, Rows - 1, Rows, Rows + 2})
      for (int skip : {0, 1, 2, 4})
        for (int at = 0; at < 5; ++at) {
          const int row0 = at == 1 ? Rows : at == 4 ? -1 : 0;
          const int column0 = at == 2 ? Columns : at == 3 ? 3 : at == 4 ? -2 : 0;
          bad += wrong<Type, Swizzle, Rows, Columns>(rows, columns, row0, column0, at % 2, skip,
                                                     cases % 11 != 10);
          ++cases;
        }
  printf("%s %d %d\\n", name, cases, bad);
}
int main() {
  all<bf16, 128, 16, 64>("one panel");
  all<bf16, 128, 8, 128>("two panels");
  all<f32, 64, 16, 16>("floats");
  all<e4m3, 32, 32, 32>("bytes");
}
"""


def function(name: str, header: str) -> str:
    """All definitions of that name, each with its template line."""
    found = re.findall(
        rf"^(?:template [^\n]*\n)?TITAN_DEVICE [^\n]*\b{name}\((?:[^\n]*\}}|.*?^\}})\n",
        header, re.M | re.S,
    )  # fmt: skip
    assert found, name
    return "\n".join(found)


def compiled(tmp_path, header):
    source = tmp_path / "fill.cpp"
    source.write_text(SHIM + "\n".join(function(name, header) for name in NAMES) + MAIN)
    program = tmp_path / "fill"
    flags = ["-std=c++17", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    done = subprocess.run(
        ["g++", *flags, "-o", str(program), str(source)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return subprocess.run([str(program)], capture_output=True, text=True, check=False, timeout=120)


needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")


@needs_compiler
def test_every_element_lies_where_a_bulk_copy_would_put_it(tmp_path):
    ran = compiled(tmp_path, HEADER.read_text(encoding="utf-8"))
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert [line.rsplit(" ", 2) for line in ran.stdout.splitlines()] == [
        [name, "560", "0"] for name in ("one panel", "two panels", "floats", "bytes")
    ]


@needs_compiler
@pytest.mark.parametrize(
    ("old", "new"),
    sampled(
        [
            ("column + each <= columns && source", "source"),
            ("(u32)(row0 + row) < (u32)rows", "row0 + row < rows"),
            ("(u32)(column + i) < (u32)columns", "column + i < columns"),
            ("inside && (u32)(row0", "(u32)(row0"),
            ("outer * rows + row0", "outer + row0"),
            ("place / panel * panel_stride", "0"),
            ("i * Type::bytes % 4 * 8", "0"),
            ("source % 16 == 0", "true"),
        ]
    ),
)
def test_a_fault_in_it_is_seen(old, new, tmp_path):
    header = HEADER.read_text(encoding="utf-8")
    start = header.index("TITAN_DEVICE void fill_tile")
    assert old in header[start:]
    ran = compiled(tmp_path, header[:start] + header[start:].replace(old, new, 1))
    assert ran.returncode != 0 or any(
        not line.endswith(" 0") for line in ran.stdout.splitlines()
    ), ran.stdout
