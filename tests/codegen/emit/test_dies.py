"""Work items of AMD kernels on dies with L2 caches of their own."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from titan.codegen.emit.hip import neighbours_share
from titan.codegen.tile.load import load_tile
from titan.foundation.resources import root

TILES = root("protocols") / "tiles"
HEADER = (root("backends") / "gfx942" / "titan_device.hip.h").read_text(encoding="utf-8")
PROGRAM = """\
#include <cstdio>
inline int smaller(int a, int b) { return a < b ? a : b; }
#define TITAN_FUNCTION inline
%s
int main() {
  for (int items = 1; items < 300; ++items) {
    for (int group = 0; group < items; ++group) std::printf("%%d ", item_of_die<8>(group, items));
    std::printf("\\n");
  }
}
"""


@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")
def test_every_item_is_computed_once_and_neighbours_are_on_one_die(tmp_path):
    pattern = r"template <int DIES> TITAN_FUNCTION int item_of_die.*?^}"
    found = re.search(pattern, HEADER, re.M | re.S)
    assert found is not None
    (tmp_path / "dies.cpp").write_text(PROGRAM % found.group())
    subprocess.run(["g++", "-o", tmp_path / "dies", tmp_path / "dies.cpp"], check=True)
    text = subprocess.run([tmp_path / "dies"], check=True, capture_output=True, text=True).stdout
    for line in text.splitlines():
        items = [int(word) for word in line.split()]
        assert sorted(items) == list(range(len(items)))
        for die in range(8):
            mine = items[die::8]  # workgroups go to the dies in turn
            assert mine == list(range(mine[0], mine[0] + len(mine))) if mine else True


@pytest.mark.parametrize(
    ("name", "share"),
    [
        ("attention_forward_gfx942", True),
        ("attention_forward_grouped_gfx942", True),
        ("attention_backward_dq_gfx942", True),
        ("attention_forward_causal_64_gfx942", False),  # trips depend on the queries
        ("gemm_gfx942", False),
        ("copy_gfx942", False),
    ],
)
def test_neighbours_that_load_the_same_tiles(name, share):
    assert neighbours_share(load_tile(TILES / f"{name}.yaml")) == share
