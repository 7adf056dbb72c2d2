"""What compiled programs of integers compute in the machine of waves, against Python's integers."""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter

import pytest

np = pytest.importorskip("numpy")

from tests.isa.waves.compiled_programs import Program  # noqa: E402
from titan.foundation.source.span import Source  # noqa: E402
from titan.isa.gcn.assembly import parse_assembly  # noqa: E402
from titan.isa.simt.launch import Launch, LaunchParameter  # noqa: E402
from titan.isa.simt.outcome import Ending  # noqa: E402
from titan.isa.waves.contents import Contents  # noqa: E402
from titan.isa.waves.machine import WaveMachine  # noqa: E402
from titan.isa.waves.start import KERNARG, kernarg  # noqa: E402

LLC = "llc-22"
WAYS = ("-O3", "-O0")  # the other selector of LLVM 22 gets divergent values and fields wrong
IN, OUT = 0x10_0000, 0x20_0000
PROGRAMS = 36


def computed(seed):
    """What a program stores and what it should; None where an instruction is not computed."""
    program = Program(seed, 8 + seed % 30)
    target = ("gfx942", "gfx950")[seed // len(WAYS) % 2]
    command = [LLC, "-mtriple=amdgcn-amd-amdhsa", f"-mcpu={target}", WAYS[seed % len(WAYS)]]
    made = subprocess.run(
        [*command, "-o", "-"], input=program.text(), capture_output=True, text=True, check=False
    )
    assert made.returncode == 0, made.stderr[:500]
    code, errors = parse_assembly(Source("k.s", made.stdout))
    assert code is not None, errors
    kernel, (word, wide) = code.kernels[0], program.scalars
    given = [OUT.to_bytes(8, "little"), IN.to_bytes(8, "little"), word.to_bytes(4, "little")]
    parameters = tuple(map(LaunchParameter, [*given, wide.to_bytes(8, "little")]))
    launch = Launch(None, (1, 1, 1), (64, 1, 1), parameters=parameters)
    words = [np.array(program.words, np.uint32), np.array(program.wide, np.uint64)]
    source = np.concatenate([row.view(np.uint8) for row in words])
    result = np.zeros(512 * len(program.stored), np.uint8)
    arguments = np.frombuffer(kernarg(kernel, launch)[0], np.uint8).copy()
    contents = Contents([(IN, source), (OUT, result), (KERNARG, arguments)])
    run = WaveMachine(code, kernel, launch, 0, 100_000, contents=contents).run()
    if run.outcome.ending is not Ending.FINISHED:
        return None
    return [[int(n) for n in row] for row in result.view(np.uint64).reshape(-1, 64)], program.stored


@pytest.mark.skipif(shutil.which(LLC) is None, reason=f"{LLC} is not installed")
def test_programs_compute_what_their_lines_say():
    seen = Counter()
    for seed in range(PROGRAMS):
        found = computed(seed)
        seen[found is None] += 1
        assert found is None or found[0] == found[1], seed
    assert seen[False] > 2 * PROGRAMS // 3
