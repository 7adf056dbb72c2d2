"""The Blackwell form of one product with a loading warpgroup whose threads copy tiles.

What `guarded.py` and `tail.py` do to the Hopper form: the ring of the operands is filled by stores
of threads, wholly or in the last iteration, and fenced, since tcgen05.mma reads shared memory as
the copy engine writes it. Three warpgroups share the registers, so that the one that goes on with
the sum asks for more of them. Decides no correctness.
"""

from __future__ import annotations

from titan.codegen.pipeline.blackwell import Blackwell
from titan.codegen.pipeline.guarded import Guarded
from titan.codegen.pipeline.tail import Tail

REGISTERS = {"producer": 64, "issuer": 64, "consumer": 248}  # setmaxnreg, of 504 for three


def _with_registers(roles: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(name, f"{said[:-1]}, registers: {REGISTERS[name]}}}") for name, said in roles]


class GuardedBlackwell(Guarded, Blackwell):
    def _roles(self) -> list[tuple[str, str]]:
        roles = super()._roles()
        return _with_registers(roles) if self.filled else roles


class TailBlackwell(Tail, Blackwell):
    def _roles(self) -> list[tuple[str, str]]:
        return _with_registers(super()._roles())
