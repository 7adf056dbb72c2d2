"""The emulation's header against the real one: the same names, the same plain arithmetic."""

from __future__ import annotations

import re
import subprocess

import pytest

from titan.foundation.resources import root
from titan.validate.emulate.compile import NATIVE, compiler

REAL = root("backends") / "sm_90a" / "titan_device.cuh"
EMULATED = NATIVE / "titan_device.cuh"


# What the real header calls itself, to disturb and to watch a run on a GPU: no kernel spells it.
OF_THE_HEADER = {
    "delay_ends", "delay_pair", "delay_turn", "delayed", "disturb", "disturb_warp",
    "drawn_sleep", "first_here", "record_index", "report", "reports", "wait_begins", "wait_ends",
}  # fmt: skip


def functions(text: str) -> set[str]:
    return set(re.findall(r"^\s*TITAN_DEVICE\s+[\w\s]*?\b(\w+)\(", text, re.M)) - {"ss", "rs"}


def emulated_functions(text: str) -> set[str]:
    return set(re.findall(r"^inline\s+[\w\s]*?\b(\w+)\(", text, re.M))


def macros(text: str) -> set[str]:
    return set(re.findall(r"^#define (TITAN_\w+)", text, re.M))


def test_every_function_is_offered():
    real = functions(REAL.read_text(encoding="utf-8"))
    assert len(real) > 60 and {"wgmma_ss", "tensor_load", "barrier_wait"} <= real
    assert real - emulated_functions(EMULATED.read_text(encoding="utf-8")) == OF_THE_HEADER
    sources = [*root("backends").glob("sm_*/*.j2"), *NATIVE.parents[2].glob("codegen/emit/*.py")]
    spelled = {name for path in sources for name in re.findall(r"titan::(\w+)", path.read_text())}
    assert "barrier_wait" in spelled and not spelled & OF_THE_HEADER


def test_every_macro_that_a_kernel_uses_is_offered():
    text = REAL.read_text(encoding="utf-8")
    kernels = [path.read_text(encoding="utf-8") for path in sorted(REAL.parent.glob("*.cu.j2"))]
    used = {name for name in macros(text) if any(name in kernel for kernel in kernels)}
    assert "TITAN_KERNEL" in used
    assert used <= macros(EMULATED.read_text(encoding="utf-8"))


def body(name: str) -> str:
    """A function of the real header from its template line to its end."""
    text = REAL.read_text(encoding="utf-8")
    found = re.search(
        rf"^(?:template <[^\n]*>\n)?TITAN_DEVICE \w+ {name}\(.*?^}}", text, re.M | re.S
    )
    assert found is not None, name
    return found.group()


PROGRAM = """\
#include "titan_device.cuh"
#include <cstdio>
namespace real {
using namespace titan;
#define shared_address(p) ((u32)(unsigned long long)(p))
%s
#undef shared_address
}
namespace titan::emulation {
std::uint32_t address_of(const void *p) { return (std::uint32_t)(unsigned long long)p; }
}
template <int W> int check() {
  int bad = 0;
  for (unsigned start = 0; start < 240000; start += 1008)
    for (unsigned leading = 16; leading < 70000; leading = leading * 3 / 16 * 16 + 16)
      for (unsigned stride = 16; stride < 70000; stride = stride * 2 / 16 * 16 + 16) {
        const void *p = (const void *)(unsigned long long)start;
        bad += real::shared_descriptor<W>(p, leading, stride) !=
               titan::shared_descriptor<W>(p, leading, stride);
        for (unsigned ahead = 0; start + ahead < 262144; ahead += 4112)
          bad += real::descriptor_ahead(titan::shared_descriptor<W>(p, leading, stride), ahead) !=
                 titan::shared_descriptor<W>((const char *)p + ahead, leading, stride);
      }
  for (unsigned offset = 0; offset < 40000; ++offset)
    bad += real::swizzled<W>(offset) != titan::swizzled<W>(offset);
  return bad;
}
template <int D> int around() {
  int bad = 0;
  real::RingPosition<D> first = {D - 1, 1};
  titan::RingPosition<D> second = {D - 1, 1};
  for (int n = 0; n < 4 * D; ++n) {
    real::advance(first);
    titan::advance(second);
    bad += first.stage != n %% D || first.parity != n / D %% 2;
    bad += first.stage != second.stage || first.parity != second.parity;
    const unsigned long long made = titan::shared_descriptor<128>((const void *)4096, 16, 1024);
    const void *there = (const void *)(4096ull + 8192 * first.stage);
    bad += real::descriptor_of_stage<8192>(made, first.stage) !=
               titan::descriptor_of_stage<8192>(made, first.stage) ||
           titan::descriptor_of_stage<8192>(made, first.stage) !=
               titan::shared_descriptor<128>(there, 16, 1024);
  }
  return bad;
}
int main() {
  int bad = check<32>() + check<64>() + check<128>();
  for (int a = -40; a <= 40; ++a)
    for (int b = -9; b <= 9; ++b)
      if (b != 0)
        bad += real::floor_divide(a, b) != titan::floor_divide(a, b) ||
               real::floor_modulo(a, b) != titan::floor_modulo(a, b);
  bad += around<2>() + around<3>() + around<4>() + around<7>();
  std::printf("%%d\\n", bad);
  return 0;
}
"""


@pytest.mark.parametrize("fault", ["", "mode << 62", "around ? 1 : 0", "(Bytes / 16)"])
def test_descriptors_swizzles_and_division_agree(tmp_path, fault):
    """Plain C++ of the real header beside the emulation's; a changed field is noticed."""
    names = ("swizzled", "floor_divide", "floor_modulo", "shared_descriptor", "descriptor_ahead",
             "descriptor_of_stage", "advance")  # fmt: skip
    ring = re.search(r"template <int Depth>\nstruct .*?^};", REAL.read_text(), re.M | re.S)
    assert ring is not None
    text = "\n".join([ring.group(), *(body(name) for name in names)])
    if fault:
        assert text.count(fault) == 1
        instead = {"mode << 62": "mode << 61", "around ? 1 : 0": "0", "(Bytes / 16)": "(Bytes / 8)"}
        text = text.replace(fault, instead[fault])
    source = tmp_path / "compare.cpp"
    source.write_text(PROGRAM % text, encoding="utf-8")
    made = tmp_path / "compare"
    command = [compiler(), "-std=c++17", "-O1", "-w", "-I", str(NATIVE), "-o", str(made)]
    subprocess.run([*command, str(source)], check=True, timeout=120)
    out = subprocess.run([str(made)], capture_output=True, text=True, check=True, timeout=60)
    assert (int(out.stdout) > 0) == bool(fault)
