"""How many warp instructions a second the emulated device computes: arithmetic in a loop.

    python -m benchmarks.bench_arithmetic [--rounds 20000]

Three binary32 multiply-adds, three integer operations, a comparison and a branch in each round, by
16 CTAs of 8 warps; numbers are compared with NumPy. One line: instructions, seconds, millions a
second by the clock and by processor time.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import titan.device
from titan.isa.numbers.device import LaunchShape

CTAS, THREADS, ROUND = 16, 256, 8  # ROUND: instructions
PTX = """
.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 x, .param .u32 n)
{
    .reg .b32 %r<8>; .reg .b64 %d<4>; .reg .f32 %f<6>; .reg .pred %p<3>;
    ld.param.u64 %d1, [x]; ld.param.u32 %r3, [n];
    mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r1, %r2, 256, %r1;
    mul.wide.u32 %d2, %r1, 4; add.s64 %d1, %d1, %d2; ld.global.f32 %f1, [%d1];
    mov.f32 %f2, 0f3F800000; mov.f32 %f3, 0f3F000000; mov.f32 %f4, 0f3E000000;
AGAIN:
    fma.rn.f32 %f1, %f1, %f3, %f2; fma.rn.f32 %f2, %f2, %f3, %f4; fma.rn.f32 %f4, %f4, %f3, %f1;
    add.u32 %r4, %r3, %r1; xor.b32 %r5, %r4, %r1; sub.u32 %r3, %r3, 1;
    setp.ne.u32 %p1, %r3, 0; @%p1 bra AGAIN;
    add.f32 %f1, %f1, %f2; st.global.f32 [%d1], %f1; ret;
}
"""


def expected(start: np.float32, rounds: int) -> np.float32:
    """What a thread stores; each multiply-add is exact in binary64 and rounded once."""
    one, two, four = float(start), 1.0, 0.125
    for _ in range(rounds):
        one = float(np.float32(one * 0.5 + two))
        two = float(np.float32(two * 0.5 + four))
        four = float(np.float32(four * 0.5 + one))
    return np.float32(np.float32(one) + np.float32(two))


def main() -> None:
    """Print the line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20_000)
    rounds = parser.parse_args().rounds
    device = titan.device.Emulated(check="off")
    shape = LaunchShape(grid=(CTAS, 1, 1), block=(THREADS, 1, 1))
    check = device.array(np.full(CTAS * THREADS, 3, np.float32))
    device.launch(PTX, shape, [check, 50])  # reads the module, too
    assert np.array_equal(check.values, np.full(CTAS * THREADS, expected(np.float32(3), 50)))
    values = device.array(np.ones(CTAS * THREADS, np.float32))
    began, used = time.perf_counter(), time.process_time()
    device.launch(PTX, shape, [values, rounds])
    wall, processor = time.perf_counter() - began, time.process_time() - used
    millions = CTAS * THREADS // 32 * ROUND * rounds / 1e6
    print(
        f"{millions:.1f} million warp instructions, {wall:.2f} s ({processor:.2f} of CPU): "
        f"{millions / wall:.1f} million a second, {millions / processor:.1f} by CPU"
    )


if __name__ == "__main__":
    main()
