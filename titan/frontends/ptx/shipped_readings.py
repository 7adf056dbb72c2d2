"""Readings under which kernels that ship are right, where the text of PTX asks for more.

Two families of kernels omit what PTX names. The mainloops of CUTLASS that load with cp.async hand a
stage over by `cp.async.mbarrier.arrive`, with no proxy fence between what the copies wrote and the
tensor core that reads it (`copy_fence=convention`). CuTe DSL, and what is written in it, has no
`tcgen05.wait::ld` in any kernel, so the first use of a loaded register is what waits for the load
(`load_ready=convention`).

A run is judged by the text first, and only what is not verified so is judged under these readings.
Each is tied to the family that ships so, known by the name that its compiler gives to an entry, and
to a form that leaves others strict: a copy that its threads wait for needs its fence, and in a
module with one `tcgen05.wait::ld` every load needs one. Of anybody else's code a fence or wait that
is left out is a fault, since nothing distinguishes it from one that was forgotten.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from titan.frontends.ptx.places import PlacedCode
from titan.frontends.ptx.policies import CodePolicies
from titan.isa.simt import events as ev
from titan.isa.simt.outcome import Run

# How entries of these families begin: cutlass::device_kernel<...> as mangled, and a kernel of
# CuTe DSL, whose compiler sets the word before the name of the function.
CUTLASS_ENTRY = "_ZN7cutlass"
CUTE_DSL_ENTRY = "kernel_cutlass_"


def by_the_text(policies: CodePolicies) -> CodePolicies:
    """The policies with what PTX asks for in the place of what kernels that ship rely on."""
    return replace(
        policies,
        load_ready="allow" if policies.load_ready == "convention" else policies.load_ready,
        copy_fence="required" if policies.copy_fence == "convention" else policies.copy_fence,
    )


def as_shipped(
    policies: CodePolicies, entry: str, code: PlacedCode, runs: Sequence[Run]
) -> CodePolicies:
    """The policies as the code of `entry` has them; those of `by_the_text` where it is of neither
    family, or has not its form."""
    found = by_the_text(policies)
    by_cute_dsl = policies.load_ready == "convention" and entry.startswith(CUTE_DSL_ENTRY)
    if by_cute_dsl and _loads_without_waits(code):
        found = replace(found, load_ready="use")
    by_cutlass = policies.copy_fence == "convention" and entry.startswith(CUTLASS_ENTRY)
    if by_cutlass and any(copies_that_arrive(run) for run in runs):
        found = replace(found, copy_fence="arrivals")
    return found


def copies_that_arrive(run: Run) -> set[int]:
    """The cp.async, by event, that a `cp.async.mbarrier.arrive` of their lanes hands over.

    Copies that the warp has waited for before are handed over by what follows that wait.
    """
    found: set[int] = set()
    open_copies: dict[tuple[int, int], list[ev.Event]] = {}
    for event in run.events:
        copies = open_copies.setdefault((event.cta, event.warp), [])
        if isinstance(event, ev.AsynchronousEvent):
            if event.kind is ev.RecordedOperation.COPY:
                copies.append(event)
        elif isinstance(event, ev.CopyArrive):
            found |= {copy.sequence for copy in copies if not copy.lanes & ~event.lanes}
        elif isinstance(event, ev.QueueWaitEvent) and event.queue is ev.RecordedQueue.COPY:
            copies.clear()
    return found


def _loads_without_waits(code: PlacedCode) -> bool:
    """Whether the code loads from tensor memory, and has no instruction that waits for loads."""
    of_tensor_memory = [item for item in code.instructions if item.opcode == "tcgen05"]
    loads = any("ld" in item.modifiers for item in of_tensor_memory)
    return loads and not any("wait::ld" in item.modifiers for item in of_tensor_memory)
