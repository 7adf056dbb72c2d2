"""How many bytes a lane accesses, beside the registers that an assembler lets it move.

A footprint that is too small hides a race. An assembler takes an operand of no other width than
that of the data, which decides the bytes of every instruction that moves whole registers.
"""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from titan.foundation.source.span import Source
from titan.isa.gcn.assembly import parse_assembly
from titan.isa.gcn.opcodes import OPCODES, OpcodeKind
from titan.isa.waves.private_steps import size_of

ASSEMBLER = "llvm-mc-22"
KERNEL = "k:\n\t{}\n\ts_endpgm\n\t.amdhsa_kernel k\n\t.end_amdhsa_kernel\n"
WIDTHS = {1: "v4", 2: "v[4:5]", 3: "v[4:6]", 4: "v[4:7]"}
_FORMS = {
    OpcodeKind.LDS: "{name} {data}, v1",
    OpcodeKind.GLOBAL: "{name} {data}, v1, s[2:3]",
    OpcodeKind.BUFFER: "{name} {data}, off, s[4:7], 0",
}
_PARTS = re.compile(r"(?:^|_)(?:[ui]8|[ui]16|b8|b16|[su]?byte|[su]?short|d16)(?:_|$)")


def _registers(names):
    """How many registers each load takes, by assembling it with every width."""
    lines = [
        (name, count, _FORMS[OPCODES[name].kind].format(name=name, data=data))
        for name in names
        for count, data in WIDTHS.items()
    ]
    made = subprocess.run(
        [ASSEMBLER, "-triple=amdgcn", "-mcpu=gfx950"],
        input="\n".join(text for *_, text in lines), capture_output=True, text=True, check=False,
    )  # fmt: skip
    wrong = {int(line) for line in re.findall(r"<stdin>:(\d+):\d+: error", made.stderr)}
    found: dict[str, list[tuple[int, str]]] = {}
    for number, (name, count, text) in enumerate(lines, 1):
        if number not in wrong:
            found.setdefault(name, []).append((count, text))
    return found


@pytest.mark.skipif(shutil.which(ASSEMBLER) is None, reason=f"{ASSEMBLER} is not installed")
def test_a_lane_loads_as_many_bytes_as_its_registers_hold():
    names = [
        name
        for name, opcode in OPCODES.items()
        if opcode.kind in _FORMS
        and re.match(r"ds_read|global_load|buffer_load", name)
        and not _PARTS.search(name.partition("_tr_")[0])
    ]
    compared = set[str]()
    for name, forms in _registers(names).items():
        ((count, text),) = forms
        assembly, errors = parse_assembly(Source("k.s", KERNEL.format(text)))
        assert assembly is not None, errors
        item = assembly.instructions[0]
        places = 2 if name.startswith("ds_read2") else 1
        assert size_of(item) * places == 4 * count, text
        compared.add(name)
    assert {"ds_read_b64_tr_b16", "ds_read_b96_tr_b6", "ds_read2st64_b64"} <= compared
    assert {"global_load_dwordx3", "buffer_load_format_xyz"} <= compared
