"""How words in memory grow with the trips: parameters, private memory, and LDS.

Words of private memory are taken as registers of their wave. Of LDS, words that are known are
followed: `cells` are those that grow with all rounds, `moved` those into which a round stores what
its number decides. Global memory is never known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from titan.isa.gcn.opcodes import OpcodeKind
from titan.isa.simt.growth import FIXED, Growth, centred, unknown
from titan.isa.simt.lane_growths import Growths, of_lane
from titan.isa.simt.passages import TripWord
from titan.isa.simt.values import lanes_of
from titan.isa.waves.decode import (
    DecodedInstruction,
    register_numbers,
    results_of,
    written_in_order,
)
from titan.isa.waves.followed import PRIVATE, FollowedInstruction
from titan.isa.waves.group import Addresses, WaveGroup
from titan.isa.waves.grown import Made, Table
from titan.isa.waves.memory_steps import (
    LDS_ADDRESS,
    lds_addresses,
    lds_offsets,
)
from titan.isa.waves.private_steps import private_address, size_of
from titan.isa.waves.scalar_memory_steps import scalar_address
from titan.isa.waves.sources import vector_source
from titan.isa.waves.start import KERNARG
from titan.isa.waves.state import LANES, OpaqueWord, Wave

Loaded = list[tuple[int, int]]  # places of known words in LDS, and what was read there


@dataclass(slots=True)
class GrownMemory:
    """What is known of memory in one run. `seen`: words of LDS that rounds have read."""

    group: WaveGroup
    word: TripWord
    cells: dict[int, Growth] = field(default_factory=dict)
    moved: set[int] = field(default_factory=set)
    seen: set[int] = field(default_factory=set)

    def scalar_load(self, wave: Wave, one: FollowedInstruction, table: Table) -> Made:
        """The kernarg segment, of which one word counts trips."""
        code = one.code
        if not code.item.base.startswith(("s_load_", "s_buffer_load_")):
            return {}
        if not table.keys().isdisjoint(one.reads):
            return dict.fromkeys(one.writes, unknown(code.number))
        address = scalar_address(code)(wave)
        if isinstance(address, OpaqueWord):
            return {}
        registers = written_in_order(code)
        made = {
            register: self._parameter(address - KERNARG + 4 * at, code.number)
            for at, register in enumerate(registers)
        }
        return {register: growth for register, growth in made.items() if growth != FIXED}

    def _parameter(self, at: int, site: int) -> Growth:
        low, high = self.word.offset, self.word.offset + self.word.size_bytes
        if at + 4 <= low or high <= at:
            return FIXED
        if at == low:
            return Growth(0, centred(self.word.slope, 32)) if high >= at + 4 else unknown(site)
        return FIXED if at == low + 4 and self.word.slope >> 32 == 0 else unknown(site)

    # ------------------------------------------------------------------------------- LDS

    def lds(
        self, wave: Wave, one: FollowedInstruction, table: Table, loaded: Loaded | None
    ) -> Made:
        """A load or store of LDS. `loaded` gets what a round reads."""
        code, item = one.code, one.code.item
        if wave.exec == 0:
            return {}
        reads = item.base.startswith("ds_read")
        if reads and (not self.group.any_known or "_tr_" in item.base or size_of(item) < 4):
            return {}
        stores = item.base.startswith("ds_write")
        if not reads and not self.cells and table.keys().isdisjoint(one.reads):
            return {}
        addresses = _addresses(wave, code)
        if addresses is None:
            return {}
        if reads:
            return self._read(wave, code, addresses, loaded)
        self._write(wave, code, addresses, table if stores else {})
        return {}

    def _read(
        self, wave: Wave, code: DecodedInstruction, addresses: Addresses, loaded: Loaded | None
    ) -> Made:
        registers, offsets = written_in_order(code), lds_offsets(code.item, size_of(code.item))
        each, made = len(registers) // len(offsets), dict[int, Growths]()
        for at, register in enumerate(registers):
            start, more = addresses + offsets[at // each] & LDS_ADDRESS, 4 * (at % each)
            values, known = self.group.load(start, more)
            items = [FIXED] * LANES
            for lane in lanes_of(known & wave.exec):
                place = int(start[lane]) + more >> 2
                items[lane] = self.cells.get(place, FIXED)
                if loaded is not None:
                    loaded.append((place, int(values[lane])))
                    self.seen.add(place)
            if any(growth is not FIXED for growth in items):
                made[register] = items
        return made

    def _write(
        self, wave: Wave, code: DecodedInstruction, addresses: Addresses, table: Table
    ) -> None:
        size, offsets = size_of(code.item), lds_offsets(code.item, size_of(code.item))
        data = code.item.operands[results_of(code.item, code.opcode) + 1 :]
        for offset, operand in zip(offsets, data, strict=False):
            registers = register_numbers(operand)
            for lane in lanes_of(wave.exec):
                for at in range(max(1, size // 4)):
                    register = registers[at] if size >= 4 else -1
                    known = register >= 0 and wave.known[register] >> lane & 1
                    growth = of_lane(table.get(register), lane) if known else FIXED
                    start = int(addresses[lane]) + offset & LDS_ADDRESS
                    self._store(start + 4 * at, growth, code.number)

    def _store(self, address: int, growth: Growth, site: int) -> None:
        place = address >> 2
        for touched in {place, address + 3 >> 2}:
            self.cells.pop(touched, None)
        if growth == FIXED:
            return
        self.moved.add(place)
        self.cells[place] = unknown(site) if growth.a else growth

    def is_as_read(self, loaded: Loaded) -> bool:
        """Whether words of LDS hold what was read of them."""
        words, known = self.group.words, self.group.words_known
        return all(known[place] and int(words[place]) == value for place, value in loaded)


def _addresses(wave: Wave, code: DecodedInstruction) -> Addresses | None:
    item = code.item
    if "addtid" in item.base:
        return lds_addresses(wave, None, item)
    operand = item.operands[results_of(item, code.opcode)]
    return lds_addresses(wave, vector_source(operand, code.number), item)


# --------------------------------------------------------------------- private memory


def private_words(one: FollowedInstruction) -> Callable[[Wave], tuple[int, ...] | None]:
    """The words that an access of private memory touches, as registers; None: not known."""
    item = one.code.item
    address_of = private_address(item, one.code.number)
    count = max(1, size_of(item) // 4)

    def found(wave: Wave) -> tuple[int, ...] | None:
        start = address_of(wave)
        if start is None or start < 0:
            return None
        return tuple(PRIVATE + start + 4 * at for at in range(count))

    return found


def through_private(
    one: FollowedInstruction, words: tuple[int, ...], table: Mapping[int, Growths]
) -> Made:
    """A load gets what its words have, a store gives them what its registers have."""
    item = one.code.item
    if "_load_" in item.base:
        return {
            register: table.get(word, FIXED)
            for register, word in zip(written_in_order(one.code), words, strict=True)
        }
    data = register_numbers(item.operands[1])
    return {word: table.get(register, FIXED) for word, register in zip(words, data, strict=True)}


# ------------------------------------------------------------------------------- stores


def stored_registers(one: FollowedInstruction) -> list[int]:
    """The registers whose contents an instruction stores to LDS or global memory."""
    item, kind = one.code.item, one.code.opcode.kind
    if kind is OpcodeKind.LDS and item.base.startswith("ds_write"):
        return [at for one in item.operands[1:] for at in register_numbers(one)]
    if kind in (OpcodeKind.GLOBAL, OpcodeKind.BUFFER, OpcodeKind.FLAT) and "_store_" in item.base:
        at = 0 if kind is OpcodeKind.BUFFER else 1
        return list(register_numbers(item.operands[at]))
    return []


def known_everywhere(wave: Wave, registers: list[int]) -> bool:
    """Whether the active lanes of registers are all known."""
    return all(wave.known[at] & wave.exec == wave.exec for at in registers if at < 512)
