"""From recordings of one cluster under several trip counts to a kernel file that is compared.

The text is read back by the ordinary reader, and what it read is unfolded and compared with every
recording, operation by operation; so nothing rests on the folding or on the writing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from titan.frontends.lift.fold import TRIPS, Recorded, fold, unfolded
from titan.frontends.lift.kernel_text import Heading, NotWritableError, kernel_text
from titan.frontends.lift.names import UNTRACKED, Named, named
from titan.frontends.lift.segments import NotFoldedError
from titan.frontends.lift.unfolded import Difference, NameTable, difference
from titan.frontends.ptx.alike import merged_alike, outputs_in_order, without_single_uses
from titan.language.kernel.decode import decode_text
from titan.language.kernel.model import Kernel
from titan.sync import program as ir

BARRIER_CELL = " as barrier"  # titan/frontends/ptx/memory.py
OUTPUTS_NOTE = "global memory that one operation alone touches is left out"
LineOf = Callable[[object], str]


@dataclass(frozen=True, slots=True)
class LiftedKernel:
    """A kernel file and what it was compared with.

    `kernel` is as the reader read `text`. It represents `minimum` trips and more; it was folded
    from launches of the trips in `used` and compared with those in `compared` too.
    `barrier_bytes`: asynchronous operations use bytes that are a barrier at other times; that they
    are handed over in order is decided for the launches, and not by the file.
    `outputs_left_out`: so is that nothing else touches global memory that one operation alone
    touches in each launch; the file does not have it.
    """

    text: str
    kernel: Kernel
    minimum: int
    used: tuple[int, ...]
    compared: tuple[int, ...]
    barrier_bytes: bool = False
    outputs_left_out: bool = False

    @property
    def statements(self) -> str:
        """The text without comments, by which two lifted kernels are compared."""
        lines = (line.partition("  #")[0] for line in self.text.splitlines())
        return "\n".join(line for line in lines if not line.startswith("#"))


def lift_recordings(
    recordings: Sequence[Recorded], used: Sequence[int], heading: Heading, line_of: LineOf
) -> LiftedKernel:
    """The kernel file behind the recordings, folded from those of the trips in `used`.

    Where global memory does not fold, that which one operation alone touches is left out.
    Raises NotFoldedError, NotWritableError.
    """
    prepared = [Recorded(item.trips, _prepared(item.program)) for item in recordings]
    try:
        lifted = _lifted(prepared, used, heading, line_of)
    except NotFoldedError:
        fewer = [(item.trips, *without_single_uses(item.program)) for item in prepared]
        if not any(count for _, _, count in fewer):
            raise
        # Renamed, since the names that are left count the regions that were before them.
        prepared = [Recorded(trips, outputs_in_order(program)) for trips, program, _ in fewer]
        heading = replace(heading, notes=(*heading.notes, OUTPUTS_NOTE))
        lifted = replace(_lifted(prepared, used, heading, line_of), outputs_left_out=True)
    touched = any(
        _touches_barriers(operation)
        for item in recordings
        for role in item.program.roles
        for operation in role.body
    )
    return replace(lifted, barrier_bytes=touched)


def _lifted(
    recordings: Sequence[Recorded], used: Sequence[int], heading: Heading, line_of: LineOf
) -> LiftedKernel:
    """The kernel file of recordings in terms that a kernel file has."""
    programs, _ = merged_alike([item.program for item in recordings])
    recordings = [
        Recorded(item.trips, _without_empty(program))
        for item, program in zip(recordings, programs, strict=True)
    ]
    folded = named(fold([item for item in recordings if item.trips in used]))
    minimum = _minimum(folded, recordings, used, line_of)
    program = replace(folded.program, parameters=(ir.Parameter(TRIPS, None, minimum),))
    others = {item.trips for item in recordings} - set(used)
    compared = tuple(sorted(trips for trips in others if trips >= minimum))
    notes = (
        *heading.notes,
        f"folded from launches of {numbers_text(used)} trips, "
        f"compared with those of {numbers_text(compared)} too",
    )
    heading = replace(heading, notes=notes)
    text = kernel_text(program, heading, folded.addresses, line_of)
    kernel = _read_back(text, folded.table, recordings, minimum)
    return LiftedKernel(text, kernel, minimum, tuple(used), compared)


def write_launch(program: ir.SyncProgram, heading: Heading, line_of: LineOf) -> LiftedKernel:
    """The kernel file of one launch, without loops. Raises NotWritableError."""
    (program,), _ = merged_alike([_prepared(program)])
    program = _without_empty(program)
    plain = named(unfolded(program))
    heading = replace(heading, notes=(*heading.notes, "this launch alone; no loops were folded"))
    text = kernel_text(plain.program, heading, plain.addresses, line_of)
    kernel = _read_back(text, plain.table, [Recorded(0, program)], 0)
    return LiftedKernel(text, kernel, 0, (), ())


def _minimum(
    folded: Named, recordings: Sequence[Recorded], used: Sequence[int], line_of: LineOf
) -> int:
    """The least number of trips from which on all recordings are what the program says."""
    wrong: dict[int, Difference] = {}
    for item in recordings:
        found = difference(folded.program, {TRIPS: item.trips}, folded.table, item.program)
        if found is not None:
            wrong[item.trips] = found
    worst = max(wrong, default=-1)
    beyond = [item.trips for item in recordings if item.trips > worst and item.trips not in used]
    if worst >= min(used) or not beyond:
        found = wrong[worst]
        program = next(item.program for item in recordings if item.trips == worst)
        raise NotFoldedError(
            f"with {worst} trips its code differs from the folded one "
            f"({_where(found, program, line_of)})"
        )
    least = worst + 1 if wrong else min(item.trips for item in recordings)
    recorded = {item.trips for item in recordings}
    if not recorded.issuperset(range(min(recorded), least)):
        raise NotFoldedError(f"with {worst} trips it is another program, and fewer were not tried")
    return least


def _where(found: Difference, program: ir.SyncProgram, line_of: LineOf) -> str:
    role = program.roles[min(found.agent, len(program.roles) - 1)]
    if found.number >= len(role.body):
        return f"{role.name}, at its end"
    return f"{role.name}, {line_of(role.body[found.number].span)}"


def _read_back(text: str, table: NameTable, recordings: Sequence[Recorded], minimum: int) -> Kernel:
    """The kernel of a text, compared with all recordings that it represents."""
    family, errors = decode_text(text, "<lifted>")
    if family is None:
        raise NotWritableError(f"the text is refused: {errors[0].headline}")
    kernel = family.kernels[0]
    if kernel.program is None:
        raise NotWritableError("the text is read as another kind of kernel")
    for item in recordings:
        if item.trips >= minimum:
            found = difference(kernel.program, {TRIPS: item.trips}, table, item.program)
            if found is not None:
                raise NotWritableError(f"the text means something else with {item.trips} trips")
    return kernel


def _prepared(program: ir.SyncProgram) -> ir.SyncProgram:
    """The program in terms that a kernel file has.

    A kernel file cannot say that an asynchronous operation also touches bytes, without regard to
    proxies, that are a barrier at other times. That is left to the launches (`barrier_bytes`).
    """
    roles = tuple(
        replace(role, body=tuple(_of_data(item) for item in role.body)) for role in program.roles
    )
    return _without_idle_fences(outputs_in_order(replace(program, roles=roles)))


def _of_data(item: ir.Operation) -> ir.Operation:
    """An asynchronous operation without its effects on bytes as a barrier."""
    if not isinstance(item, ir.Asynchronous) or not _touches_barriers(item):
        return item
    kept = (effect for effect in item.effects if not effect.buffer.endswith(BARRIER_CELL))
    return replace(item, effects=tuple(kept))


def _touches_barriers(item: ir.Operation) -> bool:
    return isinstance(item, ir.Asynchronous) and any(
        effect.buffer.endswith(BARRIER_CELL) for effect in item.effects
    )


def _without_empty(program: ir.SyncProgram) -> ir.SyncProgram:
    """Operations of a queue whose memory concerns nobody read bytes that nobody writes.

    A kernel file has no operation that touches nothing, and a queue counts these as well.
    """

    def empty(item: ir.Operation) -> bool:
        return isinstance(item, ir.Asynchronous) and not item.effects and not item.completes

    if not any(empty(item) for role in program.roles for item in role.body):
        return program
    roles = tuple(
        replace(
            role,
            body=tuple(
                replace(item, effects=(ir.Effect(UNTRACKED),))  # type: ignore[call-arg]
                if empty(item)
                else item
                for item in role.body
            ),
        )
        for role in program.roles
    )
    buffer = ir.Buffer(UNTRACKED, space=ir.Space.GLOBAL)
    return replace(program, roles=roles, buffers=(*program.buffers, buffer))


def _without_idle_fences(program: ir.SyncProgram) -> ir.SyncProgram:
    """Without `fence.mbarrier_init` where the policy gives it no meaning."""
    if program.policies.barrier_init != "assumed":
        return program

    def idle(item: ir.Operation) -> bool:
        return isinstance(item, ir.Fence) and item.kind is ir.FenceKind.BARRIER_INIT

    roles = tuple(
        replace(role, body=tuple(item for item in role.body if not idle(item)))
        for role in program.roles
    )
    return replace(program, roles=roles)


def numbers_text(numbers: Sequence[int]) -> str:
    """`0..6, 15`: runs of three and more as a range."""
    texts: list[str] = []
    rest = sorted(numbers)
    while rest:
        count = 1
        while count < len(rest) and rest[count] == rest[0] + count:
            count += 1
        if count > 2:
            texts.append(f"{rest[0]}..{rest[count - 1]}")
        else:
            count = 1
            texts.append(str(rest[0]))
        rest = rest[count:]
    return ", ".join(texts) or "no"
