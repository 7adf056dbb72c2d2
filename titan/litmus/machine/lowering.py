"""Translates an AMDGPU source test into machine programs, by the table of LLVM's sequences.

Threads of one wave that differ are a divergent branch: one runs before the other, in either order,
so that there is a program for each order. A result that is used is waited for first, as the
compiler does; beyond that every instruction keeps its place. What the compiler may reorder on top
is not tried: outcomes of these programs are some outcomes of the test, not all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import permutations, product

from titan.litmus.language import ast
from titan.litmus.language.ast import LitmusTest, LitmusThread, Operand, Register, Scope
from titan.litmus.language.machine_steps import (
    CACHE_BITS,
    GLOBAL_ATOMIC_NAMES,
    LDS,
    LDS_ATOMIC_NAMES,
    VECTOR,
    CdnaStep,
    StepForm,
    read_step,
)
from titan.litmus.machine.program import MachineProgram, MachineWave
from titan.litmus.machine.sequences import CodeSequence, access_sequence, fence_sequence
from titan.litmus.model.unsupported import UnsupportedTest

# What replaces an instruction of a sequence: its role (`release`, `single`, `acquire`, `fence`, or
# `load`, `store`, `atomic` for the access with its bits) and its text.
Edit = Callable[[str, str], tuple[str, ...]]


def as_written(role: str, text: str) -> tuple[str, ...]:
    """The sequence as the table has it."""
    return (text,)


def programs_of(
    test: LitmusTest,
    target: str,
    edit: Edit = as_written,
    compiled: Mapping[tuple[int, int], CodeSequence] | None = None,
) -> Iterator[MachineProgram]:
    """The test on a target, once for each order of threads that share a wave.

    `edit` replaces instructions of the table's sequences, for tests of the table. `compiled` are
    sequences of the instructions of the test, by thread and place, that stand instead of those of
    the table; they have all waits. Raises UnsupportedTest.
    """
    waves: dict[object, list[LitmusThread]] = {}
    for thread in test.threads:
        waves.setdefault((thread.placement.group, thread.placement.wave), []).append(thread)
    for members in waves.values():
        meets = [t for t in members if any(isinstance(i, ast.Barrier) for i in t.instructions)]
        if meets and len(members) > 1:
            raise UnsupportedTest("s_barrier in one of several threads of a wave is not decided")
    lds = {x.name for x in test.locations if x.home is not None}
    numbers = {thread.name: number for number, thread in enumerate(test.threads)}
    lower = _Lowering(target, lds, edit, numbers, compiled)
    for orders in product(*(permutations(members) for members in waves.values())):
        yield MachineProgram(
            target,
            tuple(_wave(lower, order) for order in orders),
            tuple((x.name, x.initial) for x in test.locations if x.home is None),
            tuple((x.name, x.initial) for x in test.locations if x.home is not None),
            _fine(test),
        )


def _fine(test: LitmusTest) -> frozenset[str]:
    """Locations that some thread accesses atomically at system scope."""
    return frozenset(
        code.location
        for thread in test.threads
        for code in thread.instructions
        if isinstance(code, ast.Load | ast.Store | ast.Atomic) and code.scope is Scope.SYS
    )


def _wave(lower: _Lowering, threads: tuple[LitmusThread, ...]) -> MachineWave:
    steps: list[CdnaStep] = []
    registers: list[tuple[str, int]] = []
    for thread in threads:
        steps += lower.thread(thread)
        registers += [(f"{thread.name}_{name}", value) for name, value in thread.registers]
    code = tuple(_waited(steps) if lower.compiled is None else steps)
    return MachineWave(threads[0].name, threads[0].placement, code, tuple(registers))


class _Lowering:
    """Sequences of one target, of the table or as they were compiled."""

    def __init__(
        self, target: str, lds: set[str], edit: Edit, numbers: Mapping[str, int],
        compiled: Mapping[tuple[int, int], CodeSequence] | None,
    ) -> None:  # fmt: skip
        self.target, self.lds, self.edit = target, lds, edit
        self.numbers, self.compiled = numbers, compiled

    def thread(self, thread: LitmusThread) -> list[CdnaStep]:
        """Its instructions; registers and labels carry the name of the thread."""
        prefix = f"{thread.name}_"
        labels = {i.name: n for n, i in enumerate(thread.instructions) if isinstance(i, ast.Label)}
        found = []
        for number, code in enumerate(thread.instructions):
            if isinstance(code, ast.Branch) and labels[code.target] <= number:
                raise UnsupportedTest("a loop is not decided at the level of the machine")
            texts = self._texts(code, prefix)
            if self.compiled is not None:
                texts = _as_compiled(texts, self.compiled[self.numbers[thread.name], number])
            found += [read_step(text, self.target) for text in texts]
        return found

    def _texts(self, code: ast.LitmusInstruction, prefix: str) -> list[str]:
        def operand(value: Operand) -> str:
            return f"{prefix}{value}" if isinstance(value, Register) else str(value)

        match code:
            case ast.Load(destination, location, order, scope):
                lds = location in self.lds
                body = f"{'ds_read_b32' if lds else 'global_load_dword'} {prefix}{destination}"
                sequence = access_sequence(self.target, "load", order, scope, lds)
                return self._around("load", sequence, f"{body}, {location}")
            case ast.Store(location, value, order, scope):
                lds = location in self.lds
                head = "ds_write_b32" if lds else "global_store_dword"
                sequence = access_sequence(self.target, "store", order, scope, lds)
                return self._around("store", sequence, f"{head} {location}, {operand(value)}")
            case ast.Atomic(operation, location, operands, order, scope, destination):
                lds = location in self.lds
                head = (LDS_ATOMIC_NAMES if lds else GLOBAL_ATOMIC_NAMES)[operation]
                values = ", ".join(map(operand, operands))
                sequence = access_sequence(self.target, "atomic", order, scope, lds)
                text = f"{head} {prefix}{destination}, {location}, {values}"
                return self._around("atomic", sequence, text)
            case ast.Fence(order, scope):
                return self._edited("fence", fence_sequence(self.target, order, scope))
            case ast.Barrier():
                return ["s_barrier"]
            case ast.Label(name):
                return [f"{prefix}{name}:"]
            case ast.Branch(target, relation, left, right) if relation is not None:
                names = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
                return [f"b{names[relation]} {operand(left)}, {operand(right)}, {prefix}{target}"]
            case ast.Assign(destination, "mov", (value,)):
                return [f"v_mov_b32 {prefix}{destination}, {operand(value)}"]
        raise UnsupportedTest(f"{type(code).__name__} has no machine instructions here")

    def _around(self, kind: str, sequence: CodeSequence, body: str) -> list[str]:
        before = "single" if kind == "load" else "release"
        access = self._edited(kind, (f"{body} {sequence.bits}".rstrip(),))
        return [
            *self._edited(before, sequence.before),
            *access,
            *self._edited("acquire", sequence.behind),
        ]

    def _edited(self, role: str, texts: tuple[str, ...]) -> list[str]:
        return [new for text in texts for new in self.edit(role, text)]


def _as_compiled(texts: list[str], sequence: CodeSequence) -> list[str]:
    """The access or jump of the table's texts, without bits, in the sequence that was compiled."""
    words = ("s_waitcnt", "buffer_")
    bodies = [text for text in texts if not text.startswith(words)]
    bare = [" ".join(w for w in text.split() if w not in CACHE_BITS) for text in bodies]
    kept = [f"{text} {sequence.bits}".rstrip() for text in bare]
    return [*sequence.before, *kept, *sequence.behind]


def _waited(steps: list[CdnaStep]) -> Iterator[CdnaStep]:
    """Steps with a wait before the first use of each result in flight."""
    vector: list[str | None] = []
    local: list[str | None] = []
    for step in steps:
        used = {o.name for o in step.operands if isinstance(o, Register)}
        used |= {step.destination} if step.destination is not None else set()
        for queue, counter in ((vector, "vmcnt"), (local, "lgkmcnt")):
            last = max((n for n, name in enumerate(queue) if name in used), default=None)
            if last is not None:
                count = len(queue) - 1 - last
                yield read_step(f"s_waitcnt {counter}({count})", "")
                del queue[: last + 1]
        if step.form is StepForm.WAIT:
            for queue, left in ((vector, step.vmcnt), (local, step.lgkmcnt)):
                if left is not None and len(queue) > left:
                    del queue[: len(queue) - left]
        if step.form in VECTOR or step.form is StepForm.WRITE_BACK:
            vector.append(step.destination)
        elif step.form in LDS:
            local.append(step.destination)
        yield step
