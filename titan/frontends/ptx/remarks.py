"""What verdicts on code rest on, in words: the notes of a finding, and reasons for none.

A name is what the machine or the recording has assumed or shown (`Policy`, `RunUses.remarks`).
"""

from __future__ import annotations

from collections.abc import Mapping

from titan.frontends.ptx.places import CodePlaces, location_text
from titan.isa.simt.outcome import Policy

POLICY_OF = {  # what the machine assumed, the option that forbids it, and in words
    Policy.ELECTED_LANE: ("elected_lane", "elect.sync takes the lowest lane"),
    Policy.WHOLE_WARP_BULK: (
        "whole_warp_bulk",
        "identical bulk or tensor-core operations of several lanes touch memory as one does",
    ),
    Policy.PARITY_REDUCED: ("parity", "a parity outside of {0, 1} counts modulo 2"),
    Policy.QUARTER_LANES: (
        "tensor_lanes",
        "lanes of tensor memory from 0 on are those that the warp reaches",
    ),
    Policy.PAIR_LANES: (
        "tensor_lanes",
        "lanes of tensor memory from 128 on are the rows of a pair that its second CTA holds",
    ),
}
ASSUMED = {
    Policy.OPAQUE_ADDRESS: "an access at an unknown address may touch all of its memory",
    Policy.OPAQUE_INDEX: "an access whose index is not known stays in the memory of its pointer",
    Policy.FUNCTION_OPAQUE: "a function without a body gives unknown results",
    Policy.ZEROED_MAP: "in a tensor map that begins as zeros rank, type, interleave, swizzle and "
    "fill have the number 0 until the kernel sets them",
    Policy.NO_CANCEL: "clusterlaunchcontrol.try_cancel finds no more clusters to cancel",
}
EQUAL_LANES = "equal-lanes"
NOT_SHOWN = "and that they write the same values is not shown"
CLOSE_LANES = (
    "lanes of one store write numbers to the same bytes that differ as by rounding: which of them "
    "stays is open"
)
UNSETTLED = (
    "what volatile, relaxed or atomic accesses of the same bytes give depends on the interleaving"
)
UNWRITTEN = "memory is read that nothing has written"
PERHAPS_WRITTEN = "memory is read that nothing has written unless data choose to store there"
UNDEFINED_RESULT = "a result is used that PTX leaves undefined"
UNWRITTEN_REGISTER = "a register is used that nothing has written"
STALE_STAGE = (
    "a stage of a ring is read again that nothing has filled since its last round, as others were"
)
EARLY_READ = "global memory is read before griddepcontrol.wait"
EARLY_CHANGED = (
    "global memory that this launch writes is read before griddepcontrol.wait: the grid before may"
    " write it too, as the same kernel does"
)
EARLY_WRITE = (
    "global memory is written before griddepcontrol.wait, where the grid before may still use it"
)
DECIDES_MORE = "decides more than whether to wait"
COUNTERS = "clusters raise a counter that steers in turn, or one alone does"
TICKETS = "the counter of tickets begins with the number that the launch gives"
ONE_GRID = "what CTAs hand over by tickets is decided for the grid of the launch alone"
REMARKS = {
    "lane-order": "lanes of a warp that have diverged run in the order of the recorded run",
    "partial-group": "a commit or wait of some lanes only is left out",
    "partial-fence": "a proxy fence of some lanes only is left out",
    "equal-writes": "warps that write the same bytes of global memory write the same values",
    "shown-writes": "warps write the same bytes, shown to be the same values",
    "same-lane": "where lanes of a store write the same bytes, the same lane's stay in each warp",
    EQUAL_LANES: "where lanes of one store write the same bytes, they write the same values",
    "shown-lanes": "lanes write the same bytes, shown to be the same values",
    "tried-lanes": "lanes of one store write the same bytes, the same for the numbers tried",
    "chosen-own": "memory of a thread that is loaded where data say has been written",
    "rounded-lanes": "lanes of one store write the same bytes, the same but for rounding",
    "assertions": "data do not lead to a trap, as a failed assertion does",
    "unfenced-elsewhere": "a way on which wgmma touches registers that no wgmma.fence has ordered "
    "is not taken",
    "data-loops": "a loop of which data decide the rounds comes to an end",
    "lanes-by-data": "data choose the lanes of arms that compute, load and store",
    "unused-reads": "bytes that others overwrite are read, and the value shown to be unused, or to "
    "be part of what they write",
    "unused-loads": "what tcgen05.ld loads is not waited for, and used nowhere",
    "unknown-load": "what is loaded at unknown addresses is written by nobody",
    "load-ready": "registers that tcgen05.ld loads are used before a wait for the load",
    "load-use": "a register of a tcgen05.ld is ready at its first use, where PTX names a wait",
    "register-pool": "setmaxnreg obtains the registers that it requests",
    "narrow-releases": "a release of CTA scope at a barrier of a peer orders all before it",
    "engine-relays": "what completes on a barrier publishes what its issuer knew, too",
    "narrow-reads": "a release of CTA scope at a barrier of a peer orders the reads before it",
    "register-operands": "loads into registers of a wgmma are over when its group is complete",
    "map-wait": "a wait for bulk groups covers the reads of tensor maps by loads before it",
    "counted-arrivals": "a warp that arrives twice in one generation of a barrier counts twice",
    "early-reads": "the grid before does not write what is read before griddepcontrol.wait",
    "counters": COUNTERS,
    "tickets": TICKETS,
    "module-values": "variables of the module hold what they begin with, where they are read",
    "module-changes": "no earlier launch has changed such a variable, as this one does",
    "copy-fence": "engines read what cp.async has written without the proxy fence of PTX",
    "counter-full": "an operation is issued only when its counter has room",
    "warpgroup-wait": "wgmma.wait_group of one warp waits for its whole warpgroup",
}
EXIT_HELP = (
    "`--policy exit_in_flight=allow` takes shared memory as kept until what is in flight has used "
    "it, as some kernels that ship do; no document says so"
)
COPY_HELP = (
    "`--policy copy_fence=assumed` takes a wait for `cp.async` as enough, `arrivals` its arrival "
    "at an mbarrier, as in kernels of CUTLASS; PTX names a fence"
)
LOAD_HELP = (
    "`tcgen05.wait::ld` waits for the load; `--policy load_ready=use` takes the first use of a "
    "loaded register as the wait"
)


def listed(
    assumptions: Mapping[str, tuple[int, int]], places: CodePlaces
) -> tuple[tuple[str, int, str], ...]:
    """What a verdict assumes, by name with times used and first instruction: text, times, place."""
    found = []
    texts: dict[str, str] = {policy.value: text for policy, (_, text) in POLICY_OF.items()}
    texts |= {policy.value: text for policy, text in ASSUMED.items()} | REMARKS
    for name, (times, instruction) in assumptions.items():
        item = places.module.instructions[instruction]
        source = location_text(item.location)
        place = f"line {item.line}" + (f", {source}" if source else "")
        found.append((texts.get(name, name), times, place))
    return tuple(found)
