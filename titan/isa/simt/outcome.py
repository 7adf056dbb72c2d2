"""How a run ended, and whether it may represent all interleavings.

**Conditions of confluence** that the machine tracks. A run represents all interleavings of its
launch if

(a) no control depended on opaque data outside of skipped regions. The machine never guesses: it
    skips (`events.Skipped`), or stops with REFUSED;
(b) the bytes in memory that decide control flow are race-free. `Confluence.steering` lists every
    read of concrete bytes of shared or global memory; the checker of the run verifies that each of
    them is ordered after the write it saw and that no other write is unordered with it;
(c) results of try_wait and test_wait decide nothing but waiting. Each value made from one is
    marked; a marked value may decide a branch whose region (up to its post-dominator) does nothing
    but wait (and holds a wait), and nothing else. `Confluence.polls` lists what did otherwise;
(d) no atomic's old value steered control or an address (`Confluence.atomics`), and no clock,
    multiprocessor number or other value of the moment (these are opaque, so (a) covers them).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, NamedTuple

from titan.isa.simt.events import Assumption, BarrierAddress, Event, LaneClash
from titan.isa.simt.footprints import Footprint

if TYPE_CHECKING:
    from titan.isa.ptx.module import Instruction
    from titan.isa.simt.launch import Launch, Options
    from titan.isa.simt.layout import MemoryLayout
    from titan.isa.simt.operations import DecodedCode


class Policy(StrEnum):
    """What the machine assumed where the PTX document leaves a choice; each use is an event."""

    ELECTED_LANE = "elected-lane"  # elect.sync takes the lowest lane of its mask
    WHOLE_WARP_BULK = "whole-warp-bulk"  # identical operations of lanes touch memory as one
    PARITY_REDUCED = "parity-reduced"  # a parity outside of {0, 1} counts modulo 2
    OPAQUE_GUARD = "opaque-guard"  # an instruction under an opaque guard havocs its result
    OPAQUE_ADDRESS = "opaque-address"  # an access at an unknown address: any byte of its memory
    OPAQUE_INDEX = "opaque-index"  # the same of a pointer with an unknown index: any of its memory
    FUNCTION_OPAQUE = "opaque-function"  # a function without a body gives opaque results
    QUARTER_LANES = "quarter-lanes"  # lanes from 0 on mean those of the warp's own quarter
    PAIR_LANES = "pair-lanes"  # a lane from 128 on is a row of the pair, where it is of this CTA
    ZEROED_MAP = "zeroed-map"  # in a tensor map of zeros fields that are numbered have number 0
    NO_CANCEL = "no-cancel"  # clusterlaunchcontrol.try_cancel finds nothing to cancel


class Ending(IntEnum):
    """How a run ended; only FINISHED ran every thread to its end."""

    FINISHED = 0
    HUNG = 1
    FAULT = 2  # the run could not continue: `site`, `reason`
    REFUSED = 3  # the machine would have to guess: `site`, `reason`
    BUDGET = 4


WGMMA_GROUPS = "wgmma groups"
PEER_ALLOCATION = "the allocation of the peer CTA"


@dataclass(frozen=True, slots=True)
class Waiter:
    """Lanes that wait at the end of a hung run.

    `what`: "mbarrier", "named barrier", "cluster barrier", "warp", "tensor memory", "wgmma
    groups" (`pending` of which other warps of the warpgroup have to commit) or "the allocation of
    the peer CTA" (which a pair makes together). `phase` is the phase
    that must complete (mbarrier), or the generation; `pending` and `bytes` are what is missing from
    it (threads for a named barrier).
    """

    cta: int
    warp: int
    lanes: int
    instruction: int
    what: str
    barrier: BarrierAddress | None = None
    number: int = -1
    phase: int = -1
    pending: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """`site` is an instruction; `reason` a sentence in lower case without a full stop.

    `origin`: the instruction that made the opaque value for which the run was refused, or -1.
    `map_offset`: where in the parameters the missing tensor map would be, or -1; of a run that
    ended with a `QUESTION` (launch.py), the address of the word.
    """

    ending: Ending
    reason: str = ""
    site: int = -1
    cta: int = -1
    warp: int = -1
    waiters: tuple[Waiter, ...] = ()
    origin: int = -1
    map_offset: int = -1


@dataclass(frozen=True, slots=True)
class Steering:
    """A read of concrete, changeable bytes: event `sequence` is the Access; see condition (b)."""

    sequence: int
    instruction: int
    footprint: Footprint


@dataclass(frozen=True, slots=True)
class Confluence:
    """Where the conditions have to be checked (`steering`) or fail (`polls`, `atomics`: sequence
    numbers of PollSteered events; instructions).
    """

    steering: tuple[Steering, ...] = ()
    polls: tuple[int, ...] = ()
    atomics: tuple[int, ...] = ()


INSTRUCTIONS_MAX = 200_000  # of a run that is made again: a minute of processor time


@dataclass(frozen=True, slots=True)
class PreparedLaunch:
    """What a run was made from. `parameters`: offset and bytes of each parameter of the entry."""

    code: DecodedCode
    layout: MemoryLayout
    launch: Launch
    options: Options
    parameters: tuple[tuple[int, int], ...]
    instructions: tuple[Instruction, ...]


class Alike(IntEnum):
    """How far values are shown to be equal."""

    NOT_SHOWN = 0
    TRIED = 1
    ROUNDED = 2
    EXACTLY = 3


@dataclass(frozen=True, slots=True)
class TracedAccesses:
    """What `traced.py` shows of a run, by the sequence numbers of its events.

    `written`: stores and bulk stores with equal numbers and footprints write the same bytes.
    `unused`: loads whose values decide nothing and are stored nowhere. `same_lane`: stores of which
    lanes write common bytes, equal to one before if the same lane's stay. `alike`: how far lanes
    of a store write the same where they write common bytes. `chosen_own`: branches in whose arms
    data choose the place of a load of the thread's own memory.
    """

    written: dict[int, int]
    unused: frozenset[int]
    same_lane: tuple[int, ...] = ()
    alike: dict[int, Alike] = field(default_factory=dict)
    chosen_own: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class UnfencedOnWay:
    """The products that lack a wgmma.fence on the way of a run, by instruction: whatever unknown
    data leave out (`certain`), and if they leave out something or nothing (`possible`)."""

    certain: tuple[int, ...]
    possible: tuple[int, ...]


class RegisterUse(NamedTuple):
    """A register that nothing has written is used at an instruction, or with what the instruction
    `made_at` left undefined in it. `certain`: whatever unknown data are, and wholly; else perhaps,
    or as a part of what a vector store writes."""

    register: str
    instruction: int
    certain: bool
    made_at: int = -1


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a launch. `instructions` counts warp instructions.

    `prepared`: what it can be made again from. `traced`: what is shown of its values, if asked.
    `order`: its events warp by warp, in another order that the lanes may take. `same_step`: the
    events, by sequence, that the instruction of the one before made in the same step. `unwritten`:
    instructions that read memory which nothing has written, where that is used, if asked;
    `unwritten_registers`: the same of registers. `reads_unwritten`: whether waves may have read
    registers or private memory that nothing had written. `undefined`: instructions that gave what
    PTX leaves open. `unfenced`: what lacks a fence on its way, if asked. `clashes`: the clashes of
    lanes that count (tracing/idle_reads.py, tracing/stored_again.py); None: all events that are
    such. `stored_again`: stores of lanes over their own, of values that could not be compared.
    """

    launch: Launch
    events: Sequence[Event]
    outcome: Outcome
    confluence: Confluence
    instructions: int
    prepared: PreparedLaunch | None = field(default=None, compare=False, repr=False)
    traced: TracedAccesses | None = field(default=None, compare=False, repr=False)
    order: tuple[Event, ...] = field(default=(), compare=False, repr=False)
    same_step: frozenset[int] = field(default=frozenset(), compare=False, repr=False)
    unwritten: tuple[int, ...] = field(default=(), compare=False, repr=False)
    unwritten_registers: tuple[RegisterUse, ...] = field(default=(), compare=False, repr=False)
    reads_unwritten: bool = field(default=False, compare=False, repr=False)
    unfenced: UnfencedOnWay | None = field(default=None, compare=False, repr=False)
    clashes: tuple[LaneClash, ...] | None = field(default=None, compare=False, repr=False)
    undefined: tuple[int, ...] = ()
    stored_again: tuple[int, ...] = field(default=(), compare=False, repr=False)

    def idle_clashes(self) -> list[LaneClash]:
        """Clashes of lanes that do not count, as some use nothing of what they read."""
        if self.clashes is None:
            return []
        kept = {(event.instruction, event.cta, event.warp) for event in self.clashes}
        return [
            event
            for event in self.events
            if isinstance(event, LaneClash)
            and (event.instruction, event.cta, event.warp) not in kept
        ]

    def unknown_addresses(self) -> set[int]:
        """The instructions whose accesses have a footprint that only bounds what they touch."""
        return {
            event.instruction
            for event in self.events
            if isinstance(event, Assumption)
            and event.policy in (Policy.OPAQUE_ADDRESS, Policy.OPAQUE_INDEX)
        }
