"""Where the hardware contract leaves a choice, real code relies on one: the choices as options.

Each has a default under which shipped kernels are correct; every verdict lists them
(docs/reference/real_code.md lists all, with sources).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import get_args

from titan.sync.policies import POLICY_WORDS, BarrierInit, FenceRule, Permission, PipeOrder
from titan.sync.program import Policies

CODE_POLICY_WORDS: dict[str, tuple[str, ...]] = {  # of code only, the default first
    "elected_lane": ("lowest", "refuse"),
    "whole_warp_bulk": ("one", "refuse"),
    "parity": ("modulo", "refuse"),
    "register_ready": get_args(Permission),
    "load_ready": ("convention", "allow", "refuse", "use"),
    "allocation_write": ("ordered", "generic"),
    "equal_writes": ("shown", "assumed", "refuse"),
    "unsettled": ("refuse", "allow"),
    "unused_reads": ("allow", "refuse"),
    "unwritten_reads": ("refuse", "allow"),
    "stale_reads": ("refuse", "allow"),
    "named_arrivals": ("counted", "once"),
    "grid_wait": ("reads", "none", "all"),
    "copy_fence": ("convention", "arrivals", "required", "assumed"),
    "wgmma_wait": ("warpgroup", "warp"),
    "lanes": ("refuse", "ordered"),
    "counter_full": ("stalls", "refuse"),
    "group_memory": ("issued", "waited"),
    "replay": get_args(Permission),
    "vector_reads": get_args(Permission),
    "scalar_states": get_args(Permission),
    "cta_release": ("reads", "none", "all"),
    "engine_release": ("own", "issuer"),
    "tensor_lanes": ("own", "refuse"),
    "further_trips": ("shown", "assumed"),
}
_OF_KERNELS = ("tensor",)  # choices of kernel files alone
VALUES = {
    **{name: words for name, words in POLICY_WORDS.items() if name not in _OF_KERNELS},
    **CODE_POLICY_WORDS,
}


@dataclass(frozen=True, slots=True)
class CodePolicies:
    """The choices for code that was read; the first six are those of a kernel file.

    `elected_lane`: elect.sync takes the lowest lane ("lowest"), or a kernel that elects is not
    decided ("refuse"). `whole_warp_bulk`: identical bulk operations of a whole warp are one.
    `parity`: a parity outside of {0, 1} counts modulo 2. `register_ready`: a register that an
    operation in flight owns may be touched ("allow"). `load_ready`: one that a tcgen05.ld loads
    may be moved before its wait ("allow"); with "use" its first use waits for the load, and with
    "convention" it does in kernels of CuTe DSL whose module has no tcgen05.wait::ld at all.
    `allocation_write`: what tcgen05.alloc writes to shared memory needs no proxy fence before a
    copy overwrites it ("ordered"), or is a write as any other ("generic"). `equal_writes`: writes
    of several warps to the same bytes do not race where they are shown to write the same values
    ("shown"), and in global memory without that, too ("assumed"). `unsettled`: what volatile,
    relaxed and atomic accesses give may depend on the interleaving ("allow"). `unused_reads`: a
    read whose value is shown to be unused, or to be part of what lanes of its warp write over it,
    may race, and a tcgen05.ld of which nothing is used needs no wait. `unwritten_reads`: reads of
    memory or registers that nothing has written, whose values are used, leave a kernel undecided
    ("refuse"). `stale_reads`: so do reads that come round
    a ring to a stage that has not been filled again, where others were. `named_arrivals`: a
    warp that arrives at a named barrier and arrives or waits there again before it completes counts
    each time ("counted"), or may not ("once"). `grid_wait`: what may touch
    global memory before `griddepcontrol.wait`: "reads", of what the grid before does not write;
    "none" or "all" accesses. Others leave a kernel undecided.
    `copy_fence`: what cp.async has written needs a proxy fence before tensor cores read it
    ("required"), or a wait for the copy is enough ("assumed"), or its arrival at an mbarrier
    is ("arrivals"), or that is in kernels of CUTLASS ("convention"). `wgmma_wait`: a warp that has
    waited for a wgmma group knows that the parts of all four warps are complete ("warpgroup"), or
    its own ("warp").
    `lanes`: accesses of the lanes of a warp need bar.warp.sync or another barrier between them and
    what other lanes do ("refuse"), or are ordered as the lanes run in step ("ordered").
    `counter_full`: AMD hardware issues no operation that vmcnt cannot count, so that of 64 vector
    memory operations the oldest is done ("stalls"). `group_memory`: the waves of an AMD work-group
    reach global memory by one cache in the order of issue, so that a barrier orders their accesses
    ("issued"), or an access has to be waited for before the barrier ("waited").
    `replay`: on gfx1250 the registers of an access whose addresses may not be translated yet may be
    overwritten ("allow"), as no access begins again where all pages are there.
    `vector_reads`: on gfx1250, under expert scheduling, a load may overwrite what a vector
    instruction that is not known to have ended reads ("allow"), as it returns too late to do harm.
    `scalar_states`: on AMD GPUs before gfx1250 the wait states between a vector instruction that
    writes a scalar register and one that reads it, and between a write of M0 and a copy to LDS, may
    be missing ("allow"), as in kernels that ship.
    `cta_release`: what a release of CTA scope at a
    barrier of another CTA orders for that CTA: "reads" before it (what was read may be
    overwritten), nothing ("none"), or "all" before it. `engine_release`: a copy or commit
    that completes on a barrier publishes what it did ("own"), or also what its issuer knew when it
    issued ("issuer"). `tensor_lanes`: lanes of tensor memory from 0
    on are those of the warp's own quarter, and those from 128 on are, in the second CTA of a pair,
    rows of the pair, so its lanes from 0 on ("own").
    `further_trips`: that more trips than those launched do the same is shown, or any number is
    undecided ("shown"), or that is assumed where it is not shown ("assumed").
    """

    fence_rule: FenceRule = "writer"
    war_fence: str = "false"
    barrier_init: BarrierInit = "assumed"
    exit_in_flight: Permission = "refuse"
    unobserved_phase: Permission = "refuse"
    tensor_pipe: PipeOrder = "in_order"
    elected_lane: str = "lowest"
    whole_warp_bulk: str = "one"
    parity: str = "modulo"
    register_ready: str = "refuse"
    load_ready: str = "convention"
    allocation_write: str = "ordered"
    equal_writes: str = "shown"
    unsettled: str = "refuse"
    unused_reads: str = "allow"
    unwritten_reads: str = "refuse"
    stale_reads: str = "refuse"
    named_arrivals: str = "counted"
    grid_wait: str = "reads"
    copy_fence: str = "convention"
    wgmma_wait: str = "warpgroup"
    lanes: str = "refuse"
    counter_full: str = "stalls"
    group_memory: str = "issued"
    replay: str = "refuse"
    vector_reads: str = "refuse"
    scalar_states: str = "refuse"
    cta_release: str = "reads"
    engine_release: str = "own"
    tensor_lanes: str = "own"
    further_trips: str = "shown"

    def of_program(self) -> Policies:
        """The part that the sync program holds."""
        return Policies(
            self.fence_rule,
            self.war_fence == "true",
            self.barrier_init,
            self.exit_in_flight,
            self.unobserved_phase,
            tensor_pipe=self.tensor_pipe,
        )

    def as_text(self) -> tuple[tuple[str, str], ...]:
        """All choices, in order."""
        return tuple((item.name, getattr(self, item.name)) for item in fields(self))


def chosen(texts: tuple[tuple[str, str], ...]) -> CodePolicies:
    """The defaults with some changed. Raises ValueError for a name or value that is none."""
    for name, value in texts:
        if value not in VALUES.get(name, ()):
            raise ValueError(f"{name}={value}")
    return CodePolicies(**dict(texts))  # type: ignore[arg-type]  # looked up above
