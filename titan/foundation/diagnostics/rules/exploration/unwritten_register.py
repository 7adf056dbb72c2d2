"""a register is used that nothing has written

## What it means

On the way that the launch takes a register has not been written in some lane, or comes by
`shfl.sync` from a lane that does not execute it, or holds a result that PTX leaves undefined (an
integer divided by zero), and its value, or what is made of it, decides control, an address or an
operation, or is stored to global memory.

## Why it is a fault

PTX does not initialise registers, and AMD's waves begin with those alone that the kernel asks for:
the others hold what was there, another number on each run; a quotient by zero is whatever the
machine gives. That a value is masked later, or not stored, is no fault, and is followed.

## Example

    setp.lt.s32 %p1, %r1, %r2;
    @%p1 ld.global.f32 %f1, [%rd1];         // keeps %f1 elsewhere
    st.global.f32 [%rd2], %f1;

## What to do

Give the register a value before the guarded instruction (in Triton a value of the load for what its
mask leaves out), or guard its use in the same way.

## Source

PTX ISA, State Spaces, Register State Space; Predicated Execution. LLVM, User Guide for AMDGPU
Backend, Initial Kernel Execution State.
"""

CODE = "TTN223"
NAME = "unwritten-register"
