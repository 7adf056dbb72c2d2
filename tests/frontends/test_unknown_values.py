"""What a launch leaves open and a verdict needs: named with its place in the memory it is from."""

from __future__ import annotations

from tests.frontends.test_verify_code import verified
from titan.foundation.verdict import Verdict

OF_DATA = """
.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 list)
.reqntid 32
{
	.reg .pred %p<4>;
	.reg .b32 %r<4>;
	.reg .b64 %d<4>;
	ld.param.u64 %d1, [list];
	mov.u32 %r2, %tid.x;
	mul.wide.u32 %d2, %r2, 4;
	add.u64 %d1, %d1, %d2;
	ld.global.u32 %r1, [%d1+8];
	setp.eq.u32 %p1, %r1, 0;
	@%p1 bra END;
	bar.sync 0;
END:
	ret;
}
"""


def test_bytes_that_decide_and_are_not_known_are_named():
    finding = verified(OF_DATA, "grid: [1]\nparameters: [pointer]")
    assert finding.verdict is Verdict.UNDECIDED
    line = OF_DATA[: OF_DATA.index("ld.global")].count("\n") + 1
    wanted = f"loaded at line {line} from byte 8 of the memory of parameter 0"
    (note,) = [note for note in finding.notes if wanted in note]
    assert f"and line {line + 3} in its arms" in note
    words = [1] * (2 + 32)
    known = verified(OF_DATA, f"grid: [1]\nparameters: [{{pointer: {{s32: {words}}}}}]")
    assert known.verdict is Verdict.VERIFIED, known.notes
