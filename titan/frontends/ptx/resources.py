"""Counted resources of a CTA: registers that setmaxnreg moves, columns of tensor memory.

A kernel that uses setmaxnreg is launched with a known number of registers a thread (`.maxnreg`, PTX
"setmaxnreg"); a warp gives registers to the pool of its CTA and takes them from there.
"""

from __future__ import annotations

from titan.frontends.ptx.agents import Locate
from titan.isa.simt.events import RegisterCount
from titan.sync import program as ir
from titan.sync.expression import Constant

TENSOR_COLUMNS = 512
WARP_THREADS = 32


class ResourcePools:
    """The pools of a recording; only those that are used are declared."""

    def __init__(self, ranks: dict[int, int], registers: int | None, warps: int) -> None:
        self._many = len(ranks) > 1
        self._launched = registers
        self._held: dict[tuple[int, int], int] = {}
        self._pools: dict[str, ir.Pool] = {}

    def pools(self) -> tuple[ir.Pool, ...]:
        """The pools that were used."""
        return tuple(self._pools.values())

    def _pool(self, what: str, rank: int, available: int) -> str:
        name = f"{what}@{rank}" if self._many else what
        self._pools.setdefault(name, ir.Pool(name, available))
        return name

    def tensor_pool(self, rank: int) -> str:
        """The columns of one CTA."""
        return self._pool("tensor memory columns", rank, TENSOR_COLUMNS)

    def registers(
        self, rank: int, warp: int, event: RegisterCount, locate: Locate
    ) -> ir.Operation | bool | None:
        """What the instruction does to the pool; False: nothing; None: that is not known."""
        if self._launched is None:
            return None
        held = self._held.get((rank, warp), self._launched)
        self._held[(rank, warp)] = event.registers
        change = (event.registers - held) * WARP_THREADS
        if change == 0:
            return False
        pool = self._pool("registers", rank, 0)
        span = locate(event.instruction)
        if change < 0:
            return ir.PoolGive(pool, Constant(-change), span=span)
        return ir.PoolTake(pool, Constant(change), span=span)
