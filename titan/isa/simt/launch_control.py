"""clusterlaunchcontrol: asking for another cluster, and what the answer says."""

from __future__ import annotations

from titan.isa.simt import events as ev
from titan.isa.simt.copies import AsynchronousWork, bytes_of, shared_range, start
from titan.isa.simt.footprints import MemorySpace
from titan.isa.simt.machine import SimtMachine
from titan.isa.simt.operations import DecodedStep
from titan.isa.simt.outcome import Policy
from titan.isa.simt.rendezvous import barrier_place
from titan.isa.simt.state import Fragment
from titan.isa.simt.values import Opaque, Scalar, lane, lanes_of, opaque_at

ANSWER = ((0, 1), (1, 31), (32, 16), (48, 16), (0, 0))  # lowest bit, bits: cancelled, x, y, z, none


def try_cancel(machine: SimtMachine, fragment: Fragment, step: DecodedStep, mask: int) -> bool:
    """clusterlaunchcontrol.try_cancel: an answer of 16 bytes.

    As this machine writes it: bit 0 is set if a cluster was cancelled; then 31 bits of x, 16 of y
    and 16 of z of its first CTA. As many as the launch says are, then nothing is. Each lane asks
    for a cluster of its own.
    """
    offset, barrier_offset, many = step.flags
    for lanes in (1 << number for number in lanes_of(mask)):
        ((_, (address, barrier)),) = machine.grouped(fragment, step.args, lanes, "an address")
        found = shared_range(machine, fragment, lanes, address + offset, 16, 16)
        place_ = barrier_place(machine, fragment, MemorySpace.SHARED, barrier + barrier_offset)
        if found is None:
            continue
        targets = fragment.warp.cta.cluster.ctas if many else [found[0]]
        effects = tuple(
            ev.RecordedEffect(
                bytes_of(machine, cta, found[1], 16), ev.Mode.WRITE, ev.AccessProxy.ASYNC
            )
            for cta in targets
        )
        completes = tuple(
            ev.RecordedCompletion(
                ev.BarrierAddress(cta.number if many else place_.cta, place_.offset), 16
            )
            for cta in targets
        )
        work = AsynchronousWork(ev.RecordedOperation.TRY_CANCEL, effects, completes)
        start(machine, fragment, lanes, work).answer = _answer(machine, fragment, lanes)
    return False


def _answer(machine: SimtMachine, fragment: Fragment, lanes: int) -> int:
    cluster = fragment.warp.cta.cluster
    if cluster.cancelled >= machine.launch.cancelled:
        machine.assume(fragment, lanes, Policy.NO_CANCEL)
        return 0
    cluster.cancelled += 1
    x, y, z = machine.launch.following(cluster.ctas[0].number, cluster.cancelled)
    return 1 | x << 1 | y << 32 | z << 48


def query_cancel(machine: SimtMachine, fragment: Fragment, step: DecodedStep, mask: int) -> bool:
    """Whether a cluster was cancelled, or one coordinate or all of its first CTA.

    PTX leaves open what coordinates an answer has by which nothing was cancelled, and what a
    fourth one is.
    """
    value = fragment.warp.registers[step.args[0]]
    common = lane(value, lanes_of(mask)[0])
    (first,) = step.flags
    for number, register in enumerate(step.out, first):
        low, bits = ANSWER[number]
        found: Scalar = common
        if not isinstance(common, Opaque):
            is_open = not bits or (number > 0 and not common & 1)
            found = opaque_at(fragment.pc) if is_open else common >> low & (1 << bits) - 1
        machine.write(fragment.warp, register, found, mask)
    return False
