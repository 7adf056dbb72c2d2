"""The table of AMD instructions beside an assembler and the table of completions."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from titan.foundation.source.span import Source
from titan.isa.gcn.assembly import parse_assembly
from titan.isa.gcn.names_gfx1250 import OLDER
from titan.isa.gcn.opcodes import COUNTED, ONLY_GFX1250, OPCODES, base_name, expanded
from titan.isa.gcn.targets import ABSENT
from titan.target.completion import completion

TARGETS = ("gfx90a", "gfx942", "gfx950")
ASSEMBLER = "llvm-mc-22"
KERNEL = "k:\n{}\n\ts_endpgm\n\t.amdhsa_kernel k\n\t.end_amdhsa_kernel\n"


@pytest.mark.skipif(shutil.which(ASSEMBLER) is None, reason=f"{ASSEMBLER} is not installed")
def test_an_assembler_knows_every_name():
    names = sorted(OPCODES.keys() - ONLY_GFX1250)
    unknown = set(names)
    for target in TARGETS:
        made = subprocess.run(
            [ASSEMBLER, "-triple=amdgcn", f"-mcpu={target}"],
            input="\n".join(names), capture_output=True, text=True, check=False,
        )  # fmt: skip
        refused = re.findall(
            r"<stdin>:(\d+):\d+: error: (?:invalid instruction|.*not supported on this GPU)",
            made.stderr,
        )
        unknown &= {names[int(line) - 1] for line in refused}
    assert unknown == set()


@pytest.mark.parametrize("target", TARGETS)
def test_counters_are_those_of_the_table_of_completions(target):
    table = completion(target)
    assert table is not None
    compared = 0
    for row in table.operations:
        for text in row.assembles:
            base = base_name(text.split()[0])
            if base in OPCODES and "gws" not in base:
                assert set(row.by) == set(COUNTED[OPCODES[base].kind]), text
                compared += 1
    assert compared >= 5


@pytest.mark.parametrize("target", TARGETS)
def test_what_completions_assemble_is_read(target):
    table = completion(target)
    assert table is not None
    for row in table.operations:
        for text in row.assembles:
            if "gws" in text:
                continue
            found, errors = parse_assembly(Source("k.s", KERNEL.format(text)))
            assert found is not None, errors
            assert len(found.instructions) == 2


def test_patterns_expand():
    assert expanded("a_{b,c}_{d,e}") == ["a_b_d", "a_b_e", "a_c_d", "a_c_e"]
    assert base_name("v_add_u32_e32") == "v_add_u32"
    assert base_name("v_mov_b32_dpp") == "v_mov_b32"


@pytest.mark.skipif(shutil.which(ASSEMBLER) is None, reason=f"{ASSEMBLER} is not installed")
@pytest.mark.parametrize("target", TARGETS)
def test_what_a_target_lacks_is_what_its_assembler_refuses(target):
    names = sorted(OPCODES.keys() - ONLY_GFX1250)
    made = subprocess.run(
        [ASSEMBLER, "-triple=amdgcn", f"-mcpu={target}"],
        input="\n".join(names), capture_output=True, text=True, check=False,
    )  # fmt: skip
    refused = re.findall(
        r"<stdin>:(\d+):\d+: error: (?:invalid instruction|.*not supported on this GPU)",
        made.stderr,
    )
    assert {names[int(line) - 1] for line in refused} == ABSENT[target]


@pytest.mark.skipif(shutil.which(ASSEMBLER) is None, reason=f"{ASSEMBLER} is not installed")
def test_an_assembler_knows_every_name_of_gfx1250_and_older_ones_lack_the_new_ones():
    whole = {"v_mov_b16": "v_mov_b16_e64 v1.l, v2.h"}  # without halves it is none
    names = sorted(name for name in OLDER if not name.startswith("v_dual_"))
    duals = sorted(OLDER.keys() - set(names))
    lines = [whole.get(name, name) for name in names]
    table = " bitop3:0x14"
    lines += [
        f"v_dual_mov_b32 v4, v5 :: {name} v1, v2, v3{table if 'bitop2' in name else ''}"
        for name in duals
    ]
    assert _refused(lines, "gfx1250") == set()
    lines = sorted(ONLY_GFX1250 - {"s_load_dwordx3"})
    for target in TARGETS:
        assert _refused(lines, target) == set(lines)


def _refused(lines, target):
    halves = ["-mattr=+real-true16"] if target == "gfx1250" else []
    made = subprocess.run(
        [ASSEMBLER, "-triple=amdgcn", f"-mcpu={target}", *halves],
        input="\n".join(lines), capture_output=True, text=True, check=False,
    )  # fmt: skip
    refused = re.findall(
        r"<stdin>:(\d+):\d+: error: (?:invalid instruction|.*not supported on this GPU)",
        made.stderr,
    )
    return {lines[int(line) - 1] for line in refused}


def test_counters_of_gfx1250_are_those_of_its_table_of_completions():
    table = completion("gfx1250")
    assert table is not None
    read = 0
    for row in table.operations:
        for text in row.assembles:
            source = Source("k.s", '\t.amdgcn_target "x--gfx1250"\n' + KERNEL.format(text))
            found, errors = parse_assembly(source)
            read += found is not None
            assert found is not None or "unknown instruction" in errors[0].headline, errors
    assert read >= 8
