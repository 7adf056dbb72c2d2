"""a register that is touched while an operation in flight owns it

## What it means

The accumulators of a wgmma are read, or registers that it reads are written, before its group is
waited for; or registers that a tcgen05.ld loads are used before `tcgen05.wait::ld`. The same rule
asks for a `wgmma.fence` before the first wgmma of a warp. On AMD: a register is used before the
`s_waitcnt` for the load into it, or fewer wait states behind an instruction than that one needs,
such as a matrix product whose result is read.

## Why it is a fault

The operation reads and writes its registers at any time until the wait. What the program sees or
leaves there is undefined, and ptxas does not repair it in general.

## Example

    tcgen05.ld.sync.aligned.32x32b.x8.b32 {%r1, ...}, [%r9];
    add.f32 %r2, %r1, %r1;                  // before tcgen05.wait::ld

## What to do

Wait for the group (`wgmma.wait_group`) or the loads (`tcgen05.wait::ld`, `s_waitcnt`) first, or put
`s_nop` in between. The policy `register_ready=allow` leaves the rule out.

## Source

PTX ISA, wgmma.mma_async and wgmma.wait_group; tcgen05.wait. CDNA3 instruction set architecture,
4.4, 4.5 and 7.5.
"""

CODE = "TTN217"
NAME = "register-in-flight"
