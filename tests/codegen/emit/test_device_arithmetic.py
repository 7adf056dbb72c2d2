"""The plain arithmetic of the real device header on the CPU, against formulas of this test.

Descriptors (PTX ISA, "Matrix Descriptor" of wgmma), swizzles as exclusive or of address bits,
division that rounds down, positions in rings.
"""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from titan.foundation.resources import root

REAL = root("backends") / "sm_90a" / "titan_device.cuh"
pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")


def body(name: str) -> str:
    """A function of the real header from its template line to its end."""
    text = REAL.read_text(encoding="utf-8")
    found = re.search(
        rf"^(?:template <[^\n]*>\n)?TITAN_DEVICE [\w<>]+ {name}\(.*?^}}", text, re.M | re.S
    )
    assert found is not None, name
    return found.group()


PROGRAM = """\
#include <cmath>
#include <cstdint>
#include <cstdio>
#define TITAN_DEVICE inline
using u32 = std::uint32_t;
using u64 = std::uint64_t;
namespace real {
#define shared_address(p) ((u32)(unsigned long long)(p))
%s
#undef shared_address
}
namespace expected {
template <int W> u32 swizzled(u32 offset) {  // 16-byte units of a row by the number of the row
  return offset ^ (offset / 128 %% (W / 16) << 4);
}
int floor_divide(int a, int b) { return (int)std::floor((double)a / b); }
u64 field(u64 bytes) { return bytes %% 0x40000 / 16; }
template <int W> u64 shared_descriptor(const void *p, u32 leading, u32 stride) {
  const u64 mode = W == 128 ? 1 : W == 64 ? 2 : 3;
  return field((u64)p) | field(leading) << 16 | field(stride) << 32 | mode << 62;
}
}
template <int W> int check() {
  int bad = 0;
  for (unsigned start = 0; start < 240000; start += 1008)
    for (unsigned leading = 16; leading < 70000; leading = leading * 3 / 16 * 16 + 16)
      for (unsigned stride = 16; stride < 70000; stride = stride * 2 / 16 * 16 + 16) {
        const void *p = (const void *)(unsigned long long)start;
        bad += real::shared_descriptor<W>(p, leading, stride) !=
               expected::shared_descriptor<W>(p, leading, stride);
        for (unsigned ahead = 0; start + ahead < 262144; ahead += 4112)
          bad += real::descriptor_ahead(real::shared_descriptor<W>(p, leading, stride), ahead) !=
                 expected::shared_descriptor<W>((const char *)p + ahead, leading, stride);
      }
  for (unsigned offset = 0; offset < 40000; ++offset)
    bad += real::swizzled<W>(offset) != expected::swizzled<W>(offset);
  return bad;
}
template <int D> int around() {
  int bad = 0;
  real::RingPosition<D> first = {D - 1, 1};
  for (int n = 0; n < 4 * D; ++n) {
    real::advance(first);
    bad += first.stage != n %% D || first.parity != n / D %% 2;
    if constexpr (D == 2) {
      const real::RingPosition<2> last = real::before(first);
      bad += last.stage != (n + 3) %% 2 || last.parity != (n + 3) / 2 %% 2;
    }
    const unsigned long long made = expected::shared_descriptor<128>((const void *)4096, 16, 1024);
    const void *there = (const void *)(4096ull + 8192 * first.stage);
    bad += real::descriptor_of_stage<8192>(made, first.stage) !=
           expected::shared_descriptor<128>(there, 16, 1024);
  }
  return bad;
}
int main() {
  int bad = check<32>() + check<64>() + check<128>();
  for (int a = -40; a <= 40; ++a)
    for (int b = -9; b <= 9; ++b)
      if (b != 0)
        bad += real::floor_divide(a, b) != expected::floor_divide(a, b) ||
               real::floor_modulo(a, b) != a - b * expected::floor_divide(a, b);
  bad += around<2>() + around<3>() + around<4>() + around<7>();
  std::printf("%%d\\n", bad);
  return 0;
}
"""


FAULTS = {
    "mode << 62": "mode << 61",
    "around ? 1 : 0": "0",
    "(Bytes / 16)": "(Bytes / 8)",
    "? position.stage : around": "? 1 : around",
    "position.parity ^ position.stage ^ 1": "position.parity ^ 1",
}


@pytest.mark.parametrize("fault", ["", *FAULTS])
def test_descriptors_swizzles_and_division_agree(tmp_path, fault):
    """A changed field is noticed."""
    names = ("swizzled", "floor_divide", "floor_modulo", "shared_descriptor", "descriptor_ahead",
             "descriptor_of_stage", "advance", "before")  # fmt: skip
    ring = re.search(r"template <int Depth>\nstruct .*?^};", REAL.read_text(), re.M | re.S)
    assert ring is not None
    text = "\n".join([ring.group(), *(body(name) for name in names)])
    if fault:
        assert text.count(fault) == 1
        text = text.replace(fault, FAULTS[fault])
    source = tmp_path / "compare.cpp"
    source.write_text(PROGRAM % text, encoding="utf-8")
    made = tmp_path / "compare"
    command = ["g++", "-std=c++17", "-O1", "-w", "-o", str(made)]
    subprocess.run([*command, str(source)], check=True, timeout=120)
    out = subprocess.run([str(made)], capture_output=True, text=True, check=True, timeout=60)
    assert (int(out.stdout) > 0) == bool(fault)
