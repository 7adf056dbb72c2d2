"""Numbers of tiles are never taken for the marks of content that has none."""

from __future__ import annotations

import pytest

from titan.foundation.verdict import Verdict
from titan.language.kernel.decode import decode_text
from titan.sync.state import ANY_TILE, UNDEFINED
from titan.verify.model import VerifyOptions
from titan.verify.pipeline import verify_kernel

KERNEL = """\
titan: 1
kernel: tiles
target: sm_90a
buffers: {A: {bytes: 16}}
roles: {a: {warps: 1, counters: {c: -1}}}
program:
  a:
    - for: t in 0..POWER
      do:
        - count: {c: 2 * c}
    - load: A = c + OFFSET
"""


@pytest.mark.parametrize("engine", ["auto", "explore", "order", "reference"])
@pytest.mark.parametrize("power", [20, 38, 40, 50])
@pytest.mark.parametrize("offset", [0, 1, 2])
def test_memory_that_nobody_has_written_is_no_tile(engine: str, power: int, offset: int):
    text = KERNEL.replace("POWER", str(power)).replace("OFFSET", str(offset))
    family, errors = decode_text(text)
    assert family is not None, errors
    found = verify_kernel(family.kernels[0], VerifyOptions(save_traces=None, engine=engine))
    marks = (UNDEFINED, ANY_TILE)
    assert (-(2**power) + offset in marks) == (power == 40 and offset < 2)
    refused = (Verdict.REFUSED, Verdict.UNDECIDED)
    assert found.verdict in (refused if power > 39 else (Verdict.REFUTED,))
