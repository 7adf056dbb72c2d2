"""Whether lanes of one warp access the same bytes without having met in between.

Lanes that run the same instruction are not ordered by that: a lane may be ahead of its neighbours
from the next instruction on (PTX, independent thread scheduling), so what one lane writes with a
plain st and another reads or writes needs bar.warp.sync, or another barrier, between the two.

What is noted of each byte of shared and global memory: the lanes that read and wrote it, until all
others have come after them (lane_uses.py). Lanes that all wrote a byte may read it. Atomics and
other strong accesses do not race with each other. A cp.async writes when its lane issues it, and
when the lane has waited for it or arrives for it: others come after the second. Other copies and
products access memory for the lanes that issue them, at any time after that.
Lanes that write one place with one instruction have to write the same, as far as that is known:
which of them stays is open. Numbers that are close together are another event: lanes of a
reduction add in orders of their own.
Of ldmatrix and stmatrix a lane reads or writes what its registers hold, in matrices of 8 by 8;
other shapes are not noted. What may not happen, in the arms of a branch on unknown data,
is noted as if it did, and orders nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from titan.isa.simt import events as ev
from titan.isa.simt.footprints import NO_CTA, MemorySpace
from titan.isa.simt.lane_uses import WRITES, LaneAccess
from titan.isa.simt.recorder import Recorder
from titan.isa.simt.state import Fragment, InFlight, LanePlace
from titan.isa.simt.values import lane, lanes_of

# Of floating-point formats of so many bytes: the exponent's bits, and how many steps of the last
# place two normal numbers may be apart: 2^-10 of them; 4 in formats of 16 bits.
_CLOSE: dict[int, tuple[tuple[int, int], ...]] = {
    2: ((0x7C00, 4), (0x7F80, 4)),
    4: ((0x7F80_0000, 1 << 13),),
    8: ((0x7FF0_0000_0000_0000, 1 << 42),),
}


def strong_or_plain(
    machine: Recorder, mode: ev.Mode, semantics: ev.AccessSemantics, *, commutes: bool = False
) -> LaneAccess:
    """How lanes access memory by an access of that kind. `commutes`: a reduction, which leaves the
    same in any order with others."""
    plain = machine.options.strong_as_plain and not commutes
    strong = semantics is not ev.AccessSemantics.WEAK and not plain
    if mode is ev.Mode.READ:
        return LaneAccess.STRONG_READ if strong else LaneAccess.READ
    return LaneAccess.STRONG_WRITE if strong else LaneAccess.WRITE


def order_copies(
    machine: Recorder, fragment: Fragment, copies: Iterable[tuple[InFlight, int]]
) -> None:
    """Lanes have waited for what each of them has copied by cp.async, or arrive for it."""
    for copy, lanes in copies:
        now = lanes & copy.lanes & ~copy.landed
        copy.landed |= now
        places = [(by & now, place) for by, place in copy.places if by & now]
        if places:
            access = LaneAccess.WRITE
            order_lanes(machine, fragment, places, copy.place_bytes, access, copy.instruction)


def order_effects(
    machine: Recorder, fragment: Fragment, lanes: int, effects: Sequence[ev.RecordedEffect]
) -> None:
    """An engine accesses memory for `lanes`: record the first clash with what others did."""
    uses = fragment.warp.uses
    if fragment.pc in machine.clashed or not (uses.now or uses.outer or uses.layers):
        return
    for effect in effects:
        footprint = effect.footprint
        if footprint.space not in (MemorySpace.SHARED, MemorySpace.GLOBAL):
            continue
        writes = effect.mode is not ev.Mode.READ
        found = uses.first_clash(footprint.cta, footprint.ranges(), lanes, writes)
        if found is not None:
            at, other = found
            machine.clashed.add(fragment.pc)
            byte = machine.footprint(footprint.space, footprint.cta, ((at, at + 1),))
            mode = ev.Mode.WRITE if writes else ev.Mode.READ
            machine.record(ev.LaneClash, fragment, lanes, byte, mode, other)
            return


def clash_within(
    machine: Recorder, fragment: Fragment, lanes: int, at: LanePlace, count: int,
    *, rounding: bool = False,
) -> None:  # fmt: skip
    """Lanes write different bytes to one place with the fragment's instruction: record it, once."""
    space, cta, low = at
    recorded = machine.rounded if rounding else machine.clashed
    if space not in (MemorySpace.SHARED, MemorySpace.GLOBAL):
        return
    if fragment.pc in machine.clashed or fragment.pc in recorded:
        return
    if machine.uncertain or machine.maybe:
        return  # perhaps one of them alone
    recorded.add(fragment.pc)
    number = NO_CTA if cta is None else cta.number
    footprint = machine.footprint(MemorySpace(space), number, ((low, low + count),))
    mode = ev.Mode.WRITE
    machine.record(ev.LaneClash, fragment, lanes, footprint, mode, fragment.pc, rounding)


def clash_of_stores(
    machine: Recorder, fragment: Fragment, located: Sequence[tuple[int, LanePlace]],
    values: Sequence[int], size: int,
) -> None:  # fmt: skip
    """Look for lanes that store different known values of `size` bytes each to one place."""
    registers, every = fragment.warp.registers, (1 << 8 * size) - 1
    for lanes, where in located:
        for register in values:
            items = (lane(registers[register], index) for index in lanes_of(lanes))
            known = [item & every for item in items if isinstance(item, int)]
            if len(set(known)) > 1:
                others = {item for item in known if item != known[0]}
                rounding = all(nearly_equal(known[0], other, size) for other in others)
                count = size * len(values)
                clash_within(machine, fragment, lanes, where, count, rounding=rounding)


def nearly_equal(one: int, other: int, size: int) -> bool:
    """Whether two values of `size` bytes are close as one number, or as two of half of the size:
    as sums are whose terms were added in another order. What is close says `_CLOSE`.
    """
    if any(_close_as(one, other, 8 * size, *format_) for format_ in _CLOSE.get(size, ())):
        return True
    half = 4 * size
    low = (1 << half) - 1
    return size in (4, 8) and all(
        nearly_equal(one >> shift & low, other >> shift & low, size // 2) for shift in (0, half)
    )


def _close_as(one: int, other: int, bits: int, exponent: int, steps: int) -> bool:
    if (one ^ other) >> (bits - 1) or abs(one - other) > steps:
        return False
    return all(bits & exponent not in (0, exponent) for bits in (one, other))


def pieces_of_rows(
    located: Iterable[tuple[int, LanePlace]], piece: int
) -> list[tuple[int, LanePlace]]:
    """What each lane reads or writes of the rows of 8 by 8 matrices at the addresses of these
    lanes: `piece` is 4 bytes of a row, or 2 of a row of a transposed matrix."""
    found = []
    for group, (space, cta, low) in located:
        rows = {index % 8 for index in lanes_of(group)}
        for column in range(16 // piece):
            by = (4 * row + column if piece == 4 else 4 * column + row // 2 for row in rows)
            lanes = 0
            for index in by:
                lanes |= 1 << index
            found.append((lanes, (space, cta, low + column * piece)))
    return found


def order_lanes(
    machine: Recorder, fragment: Fragment, located: Sequence[tuple[int, LanePlace]], count: int,
    access: LaneAccess, instruction: int,
) -> None:  # fmt: skip
    """Note an access to `count` bytes at each place by its lanes; record the first clash of the
    fragment's instruction with what other lanes did since the lanes met."""
    if not machine.orders_lanes:
        return
    clash: tuple[int, MemorySpace, int, int, int] | None = None
    some = machine.uncertain or machine.parted
    apart = machine.parted and access is LaneAccess.WRITE
    for lanes, (space, cta, at) in located:
        if space not in (MemorySpace.SHARED, MemorySpace.GLOBAL):
            continue
        number = NO_CTA if cta is None else cta.number
        for byte in range(at, at + count):
            other = fragment.warp.uses.note((number, byte), lanes, access, instruction, some)
            if apart and other is None and lanes & lanes - 1:
                other = instruction  # lanes in different rounds
            if clash is None and other is not None:
                clash = lanes, MemorySpace(space), number, at, other
    if clash is not None and fragment.pc not in machine.clashed:
        machine.clashed.add(fragment.pc)
        lanes, space, number, at, other = clash
        footprint = machine.footprint(space, number, ((at, at + count),))
        mode = ev.Mode.WRITE if access in WRITES else ev.Mode.READ
        machine.record(ev.LaneClash, fragment, lanes, footprint, mode, other)
