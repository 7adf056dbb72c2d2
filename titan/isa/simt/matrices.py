"""ldmatrix, stmatrix, and the loads and stores of wmma: which rows a warp accesses, and numbers.

Numbers are computed for matrices of 8 x 8 elements of 16 bits alone: lane 4 r + c holds the columns
2c and 2c + 1 of row r (PTX, "ldmatrix"), or of a transposed matrix these rows of column r.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from titan.isa.simt import events as ev
from titan.isa.simt.accesses import (
    ATOMIC_WINDOWS,
    PLAIN_READ,
    PLAIN_WRITE,
    SHARED_WINDOW,
    AccessForm,
    Located,
    any_known,
    anywhere,
    fault,
    locate,
    outside,
    read_value,
    record,
    within,
    write_value,
)
from titan.isa.simt.lane_order import order_lanes, pieces_of_rows
from titan.isa.simt.lane_uses import LaneAccess
from titan.isa.simt.machine import SimtMachine
from titan.isa.simt.operations import DecodedStep
from titan.isa.simt.state import Cta, Fragment
from titan.isa.simt.values import Opaque, Scalar, Value, lane, lanes_of, opaque_at

Place = tuple[int, Cta | None, int]  # memory, CTA and offset
ELEMENT_BYTES, COLUMNS = 2, 8
ROW_BYTES, TRANSPOSED = ELEMENT_BYTES * COLUMNS, 2


def load_matrix(machine: SimtMachine, fragment: Fragment, step: DecodedStep, mask: int) -> bool:
    """ldmatrix, wmma.load: rows at the addresses of the first lanes."""
    located, known = _accessed(machine, fragment, step, mask, PLAIN_READ)
    rows = {index: where for group, where in located for index in lanes_of(group)}
    for number, register in enumerate(step.out):
        value: Value = opaque_at(fragment.pc)
        if known and step.flags[4]:
            value = [_element_pair(machine, fragment, step, rows, number, n) for n in range(32)]
        machine.write(fragment.warp, register, value, mask)
    return False


def store_matrix(machine: SimtMachine, fragment: Fragment, step: DecodedStep, mask: int) -> bool:
    """stmatrix, wmma.store: rows at the addresses of the first lanes."""
    located, _ = _accessed(machine, fragment, step, mask, PLAIN_WRITE)
    values = [fragment.warp.registers[register] for register in step.args[1:]]
    columns = range(COLUMNS if step.flags[4] else 0)
    stored = [
        (where, [_stored_by_all(step, values, lanes, column) for column in columns])
        for lanes, where in located
    ]
    _note_rows(machine, stored)
    for where, items in stored:
        write_value(machine, fragment, 0, where, step.flags[2], opaque_at(fragment.pc))
        for column, item in enumerate(items):
            if item is not None:  # else it is open which row stays
                part = (where[0], where[1], where[2] + ELEMENT_BYTES * column)
                write_value(machine, fragment, 0, part, ELEMENT_BYTES, item)
    return False


def _note_rows(machine: SimtMachine, stored: list[tuple[Place, list[int | None]]]) -> None:
    """The bytes of the write that has just been recorded, as `accesses.store` notes them."""
    rows: dict[int, bytes] = {}
    for (_, _, at), items in stored:
        known = [item.to_bytes(ELEMENT_BYTES, "little") for item in items if item is not None]
        if len(known) < COLUMNS:
            return
        rows[at] = b"".join(known)
    places = sorted(rows)
    apart = all(b - a >= ROW_BYTES for a, b in pairwise(places))
    if machine.maybe or not apart or len({place[:2] for place, _ in stored}) != 1:
        return
    last = machine.events[-1]
    if isinstance(last, ev.AccessEvent):
        machine.events[-1] = replace(last, value=b"".join(rows[at] for at in places))


def _stored_by_all(step: DecodedStep, values: list[Value], lanes: int, column: int) -> int | None:
    """What is stored in a column of the rows at one address; None: not known, or not the same."""
    found = {_element(step, values, row, column) for row in lanes_of(lanes)}
    return found.pop() if len(found) == 1 else None


def _element(step: DecodedStep, values: list[Value], row: int, column: int) -> int | None:
    """What is stored in a column of the row at the address of lane `row`; None: not known."""
    down, across = row % 8, column
    if step.flags[4] == TRANSPOSED:
        down, across = across, down
    item = lane(values[row // 8], 4 * down + across // 2)
    return None if isinstance(item, Opaque) else item >> 16 * (across % 2) & 0xFFFF


def _element_pair(
    machine: SimtMachine,
    fragment: Fragment,
    step: DecodedStep,
    rows: dict[int, Place],
    number: int,
    index: int,
) -> Scalar:
    """What lane `index` gets of the matrix of that number: two elements."""
    found = 0
    for element in range(2):
        row, column = index // 4, index % 4 * 2 + element
        if step.flags[4] == TRANSPOSED:
            row, column = column, row
        where = rows.get(8 * number + row)
        if where is None:
            return opaque_at(fragment.pc)
        part = (where[0], where[1], where[2] + ELEMENT_BYTES * column)
        item = read_value(machine, fragment.warp, 0, part, ELEMENT_BYTES, fragment.pc)
        if isinstance(item, Opaque):
            return opaque_at(fragment.pc)
        found |= item << 16 * element
    return found


def _accessed(
    machine: SimtMachine, fragment: Fragment, step: DecodedStep, mask: int, form: AccessForm
) -> tuple[Located, bool]:
    """The rows, and whether something of them is known to read; the access is recorded."""
    space, offset, size, count, piece, alignment = step.flags
    lanes = mask & ((1 << count) - 1)
    located = locate(machine, fragment, step.args[0], space, offset, alignment, lanes)
    windows = SHARED_WINDOW if piece else ATOMIC_WINDOWS  # wmma has no pieces
    located = within(machine, fragment, located, alignment, windows)
    if located is None:
        anywhere(machine, fragment, space, mask, form)
        return [], False
    located = _whole_rows(machine, fragment, located, size)
    users = [(mask if len(located) == 1 else group, where) for group, where in located]
    reads = form.mode is ev.Mode.READ
    known = reads and any(any_known(machine, where, size) for _, where in located)
    if piece and not (reads and machine.idle_lanes):
        access = LaneAccess.READ if reads else LaneAccess.WRITE
        order_lanes(machine, fragment, pieces_of_rows(located, piece), piece, access, fragment.pc)
    record(machine, fragment, users, size, form, known=known)
    return located, known


def _whole_rows(machine: SimtMachine, fragment: Fragment, located: Located, size: int) -> Located:
    """The rows of `size` bytes of which the first are there; others are recorded as faults."""
    found: Located = []
    for lanes, where in located:
        if outside(machine, where[1], where[0], where[2], size):
            fault(machine, fragment, lanes, ev.MemoryFaultKind.OUTSIDE, where, size)
        else:
            found.append((lanes, where))
    return found
