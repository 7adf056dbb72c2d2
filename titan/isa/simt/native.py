"""Runs a decoded launch on the native machine.

Tests compare the native machine with the Python one: they record the same events in the same order.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from pathlib import Path

from titan.foundation.last import LastMade
from titan.foundation.native_core import CData, check_core
from titan.isa.simt.accesses import global_bounds, reach_of
from titan.isa.simt.events import BarrierAddress
from titan.isa.simt.footprints import Box, Footprint, MemorySpace
from titan.isa.simt.launch import Launch, LaunchTensorMap, Options
from titan.isa.simt.layout import MemoryLayout
from titan.isa.simt.memory import KNOWN
from titan.isa.simt.native_events import NativeReader, RecordingBefore
from titan.isa.simt.operations import DecodedCode, PresetKind
from titan.isa.simt.outcome import (
    PEER_ALLOCATION,
    WGMMA_GROUPS,
    Confluence,
    Ending,
    Outcome,
    Run,
    Steering,
    Waiter,
)
from titan.isa.simt.parts_at_barriers import parts_together
from titan.isa.simt.recorder import Recorder

# The order is that of the enumeration in native/clusters.c.
_NAMES = """
tid.x tid.y tid.z ntid.x ntid.y ntid.z ctaid.x ctaid.y ctaid.z nctaid.x nctaid.y nctaid.z
clusterid.x clusterid.y clusterid.z nclusterid.x nclusterid.y nclusterid.z cluster_ctaid.x
cluster_ctaid.y cluster_ctaid.z cluster_nctaid.x cluster_nctaid.y cluster_nctaid.z laneid
cluster_ctarank cluster_nctarank is_explicit_cluster lanemask_eq lanemask_le
lanemask_lt lanemask_ge lanemask_gt dynamic_smem_size total_smem_size aggr_smem_size
reserved_smem_offset_begin reserved_smem_offset_end reserved_smem_offset_cap shared
"""
SPECIALS = _NAMES.split()
_SIGN = 1 << 63  # tables hold 64 bits with a sign
_KNOWN_RUN = re.compile(bytes((KNOWN,)) + b"+")
WAITS = ("", "warp", "mbarrier", "named barrier", "cluster barrier", "tensor memory",
         WGMMA_GROUPS, PEER_ALLOCATION)  # fmt: skip


def core() -> CData:
    """The compiled module, or None where it was not built. Raises StaleCoreError."""
    try:
        from titan.isa.simt import _core  # type: ignore[attr-defined]
    except ImportError:
        return None
    check_core(_core, Path(__file__).parent)
    return _core


class _KeptArrays:
    """Memory that a core reads; it lives as long as this object."""

    def __init__(self, ffi: CData) -> None:
        self.ffi = ffi
        self.kept: list[CData] = []

    def _array(self, type_: str, values: CData) -> CData:
        made = self.ffi.new(f"{type_}[]", values)
        self.kept.append(made)
        return made


class _CodeTables(_KeptArrays):
    """A program as a core reads it."""

    def __init__(self, ffi: CData, code: DecodedCode) -> None:
        super().__init__(ffi)
        pool: list[int] = []

        def placed(values: tuple[int, ...]) -> tuple[int, int]:
            pool.extend(_signed(int(value)) for value in values)
            return len(pool) - len(values), len(values)

        steps: list[tuple[int, ...]] = []
        regions: list[tuple[int, ...]] = []
        for index, step in enumerate(code.steps):
            number = -1
            region = code.regions.get(index)
            if region is not None:
                number = len(regions)
                regions.append(
                    (region.cyclic, region.refused, region.accesses, region.waits, region.alike,
                     region.trapped, *placed(region.written), *placed(region.blocks),
                     *placed(region.stores))
                )  # fmt: skip
            steps.append(
                (int(step.op), step.guard, step.negated, int(step.kind), step.bits,
                 *placed(step.flags), *placed(step.out), *placed(step.args),
                 code.joins[index], number)
            )  # fmt: skip
        presets = []
        for preset in code.presets:
            which = SPECIALS.index(preset.name) if preset.name in SPECIALS else len(SPECIALS)
            kind = 0 if preset.kind is PresetKind.CONSTANT else 1
            presets.append((preset.register, kind, which, preset.value))
        found = ffi.new("titan_code *")
        found.steps, found.step_count = self._array("titan_step", steps), len(steps)
        found.pool = self._array("int64_t", pool or [0])
        found.regions = self._array("titan_region", regions or [(0,) * 12])
        found.presets = self._array("titan_preset", presets or [(0, 0, 0, 0)])
        found.preset_count = len(presets)
        found.start, found.registers = code.start, code.registers
        found.local_bytes = code.local_bytes
        self.code = found


_LAST: LastMade[_CodeTables] = LastMade()


class Native(_KeptArrays):
    """One run."""

    def __init__(
        self, code: DecodedCode, layout: MemoryLayout, launch: Launch, options: Options
    ) -> None:
        module = self.module()
        assert module is not None, "the native core is built"
        super().__init__(module.ffi)
        self.lib = module.lib
        self.code = code
        self.launch = launch
        # The memories at the start are prepared in Python.
        self.machine = Recorder(code, layout, launch, options)
        self.layout = layout
        self.options = options

    def module(self) -> CData:
        """The compiled module, or None."""
        return core()

    def _bytes(self, data: bytes | bytearray) -> CData:
        made = self.ffi.from_buffer("uint8_t[]", bytes(data) or b"\0")
        self.kept.append(made)
        return made

    # ---------------------------------------------------------------------------- tables

    def _code(self) -> CData:
        """The tables of the program; those of the run before, where it had the same."""
        make = partial(_CodeTables, self.ffi, self.code)
        tables = _LAST.of((self.ffi, self.code), make)
        self.kept.append(tables)
        return tables.code

    def _map(self, data: bytes, map_: LaunchTensorMap) -> tuple[CData, ...]:
        def five(values: tuple[int, ...]) -> list[int]:
            return [*values, 0, 0, 0, 0, 0][:5]

        return (
            map_.data_type, map_.rank, map_.interleave, map_.channels, map_.pixels,
            map_.swizzle, map_.fill, map_.base,
            five(map_.dimensions), five(map_.stride_bytes), five(map_.box),
            five(map_.element_strides), five(map_.lower), five(map_.upper), self._bytes(data),
        )  # fmt: skip

    def _launch(self, places: list[tuple[int, int]]) -> CData:
        machine, layout, options = self.machine, self.layout, self.options
        machine.load_parameters(places)
        launch = self.ffi.new("titan_launch *")
        for axis in range(3):
            launch.grid[axis] = self.launch.grid[axis]
            launch.block[axis] = self.launch.block[axis]
            launch.cluster[axis] = self.launch.cluster[axis]
        launch.shared_bytes = layout.shared_bytes
        launch.static_bytes = layout.static_shared_bytes
        launch.dynamic_start = layout.dynamic_start
        launch.parameters = self._bytes(machine.parameters.data)
        launch.parameter_state = self._bytes(machine.parameters.state)
        launch.parameter_bytes = machine.parameters.size
        launch.constants = self._bytes(machine.constants.data)
        launch.constant_state = self._bytes(machine.constants.state)
        launch.constant_bytes = machine.constants.size
        maps = [self._map(data, map_) for data, map_ in self.launch.tensor_maps.items()]
        if maps:
            launch.maps, launch.map_count = self._array("titan_map", maps), len(maps)
        bounds = global_bounds(machine)
        if bounds:
            flat = [number for pair in bounds for number in pair]
            launch.bounds, launch.bound_count = self._array("int64_t", flat), len(bounds)
        holes = [number for hole in layout.holes for number in hole]
        if holes:
            launch.holes, launch.hole_count = self._array("int64_t", holes), len(layout.holes)
        reaches = reach_of(machine)
        if reaches:
            pairs = [reaches.get(index, (0, 0)) for index in range(len(self.code.steps))]
            launch.reaches = self._array("int64_t", [number for pair in pairs for number in pair])
        ctas = [members[0] for members in machine.chosen()]
        launch.ctas, launch.cta_count = self._array("int32_t", ctas or [0]), len(ctas)
        launch.seed, launch.steps_max = options.seed, options.steps_max
        launch.events_max = options.events_max
        launch.first_poll_fails = options.first_poll_fails
        launch.highest_columns = options.highest_columns
        launch.strong_as_plain = options.strong_as_plain
        launch.cancelled, launch.in_turn = self.launch.cancelled, self.launch.in_turn
        draws = [
            number
            for at, numbers in self.launch.draws.items()
            for number in (at, len(numbers), *numbers)
        ]
        if draws:
            launch.draws, launch.draw_count = self._array("int64_t", draws), len(draws)
        answers = self.launch.answers
        if answers is not None:
            flat = [
                number
                for value in answers
                for number in (value is not None, _signed(0 if value is None else value))
            ]
            launch.answers, launch.answer_count = self._array("int64_t", flat or [0]), len(answers)
        decided = [(*warp, jumps) for warp, ways in self.launch.decisions.items() for jumps in ways]
        if decided:
            triples = [number for triple in decided for number in triple]
            launch.decisions = self._array("int32_t", triples)
            launch.decision_count = len(decided)
        return launch

    # ------------------------------------------------------------------------------- run

    def run(
        self,
        places: list[tuple[int, int]],
        reads: tuple[tuple[int, int], ...] = (),
        before: RecordingBefore | None = None,
    ) -> Run:
        """Run to an end. `reads`: ranges of global memory that `read` keeps. `before`: a recording
        that this one may begin with, which it then replaces.
        """
        lib = self.lib
        code, launch = self._code(), self._launch(places)
        machine = lib.titan_simt_new(code, launch)
        try:
            for number, page in self.machine.memory.pages.items():
                for at, data in _known_runs(page.state, page.data):
                    lib.titan_simt_store(machine, (number << 12) + at, data, len(data))
            ending = Ending(lib.titan_simt_run(machine))
            self.read = [self._read(machine, at, count) for at, count in reads]
            return self._result(machine, ending, before or RecordingBefore())
        finally:
            lib.titan_simt_free(machine)

    def _read(self, machine: CData, at: int, count: int) -> bytes | None:
        buffer = self.ffi.new("uint8_t[]", count)
        if not self.lib.titan_simt_read(machine, at, count, buffer):
            return None
        return bytes(self.ffi.buffer(buffer))

    def _result(self, machine: CData, ending: Ending, before: RecordingBefore) -> Run:
        ffi, lib = self.ffi, self.lib
        numbers = ffi.new("int64_t[]", lib.RESULT_NUMBERS)
        lib.titan_simt_numbers(machine, numbers)
        site, cta, warp, count, _, words, _, *counts, origin, map_offset, undefined = list(numbers)

        def stream(which: int, size: int) -> list[int]:
            if not size:
                return []
            return list(ffi.unpack(lib.titan_simt_words(machine, which), size))

        made = self._footprints(machine)
        recorded = b""
        if words:
            recorded = bytes(ffi.buffer(lib.titan_simt_words(machine, 0), 8 * words))
        reader = NativeReader(made, self.code.names)
        events = before.followed_by(recorded, made, reader)
        steering_words = stream(1, counts[0])
        steering = tuple(
            Steering(steering_words[n], steering_words[n + 1], made[steering_words[n + 2]])
            for n in range(0, len(steering_words), 3)
        )
        atomics = tuple(sorted(stream(3, counts[2])))
        confluence = Confluence(steering, tuple(stream(2, counts[1])), atomics)
        rows = stream(4, counts[3])
        waiters = tuple(waiter_of(rows[n : n + 11]) for n in range(0, len(rows), 11))
        reason = ffi.string(lib.titan_simt_reason(machine)).decode()
        outcome = Outcome(ending, reason, site, cta, warp, waiters)
        if ending in (Ending.FAULT, Ending.REFUSED):
            outcome = replace(outcome, origin=origin, map_offset=map_offset)
        same_step = frozenset(reader.same_step)
        return Run(
            self.launch, parts_together(events, self.code, self.launch.threads), outcome,
            confluence, count, same_step=same_step,
            undefined=tuple(sorted(stream(5, undefined))),
        )  # fmt: skip

    def _footprints(self, machine: CData) -> list[Footprint]:
        """All footprints, by their numbers."""
        size = self.lib.titan_simt_footprints(machine, self.ffi.NULL)
        if not size:
            return []
        out = self.ffi.new("int64_t[]", size)
        self.lib.titan_simt_footprints(machine, out)
        words = self.ffi.unpack(out, size)
        found: list[Footprint] = []
        spaces = tuple(MemorySpace)
        at = 0
        while at < size:
            space, cta, count = words[at : at + 3]
            at += 3
            boxes = []
            for _ in range(count):
                start, length, steps = words[at : at + 3]
                at += 3
                pairs: tuple[tuple[int, int], ...] = ()
                if steps:
                    flat = words[at : at + 2 * steps]
                    pairs = tuple(zip(flat[::2], flat[1::2], strict=True))
                    at += 2 * steps
                boxes.append(Box(start, length, pairs))
            found.append(Footprint(spaces[space], cta, tuple(boxes)))
        return found


def _signed(value: int) -> int:
    """A word of 64 bits as the tables hold it."""
    return (value + _SIGN) % (2 * _SIGN) - _SIGN


def waiter_of(row: list[int]) -> Waiter:
    """What waits, from its eleven words."""
    cta, warp, lanes, instruction, why, barrier_cta, offset, number, phase, pending, bytes_ = row
    barrier = BarrierAddress(barrier_cta, offset) if barrier_cta >= 0 else None
    return Waiter(
        cta, warp, lanes, instruction, WAITS[why], barrier, number, phase, pending, bytes_
    )


def _known_runs(state: bytearray, data: bytearray) -> list[tuple[int, bytes]]:
    """The runs of known bytes of a page."""
    return [
        (found.start(), bytes(data[found.start() : found.end()]))
        for found in _KNOWN_RUN.finditer(state)
    ]
