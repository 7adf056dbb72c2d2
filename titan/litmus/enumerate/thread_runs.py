"""Second engine, part one: every run of every thread with guessed read values, and the schedules.

Imports no solver and none of the first engine. A thread is run as a small interpreter that branches
over the values a read may return and over whether a wait passes; `schedules` then plays barriers
and mbarriers operationally, step by step, and reports who met whom.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Unpack

from titan.litmus.enumerate.run import (
    EventFields,
    Key,
    RunEvent,
    StepKind,
    ThreadRun,
    ThreadState,
    compute,
    holds,
)
from titan.litmus.language import ast
from titan.litmus.language.ast import LitmusTest, Proxy, Register, ThreadPlacement

Guess = tuple[int, ...]  # values of the reads of one instruction, or whether its wait passes


class ThreadRuns:
    """All runs of one thread, given the values each memory location may hold."""

    def __init__(
        self,
        test: LitmusTest,
        number: int,
        values: dict[str, set[int]],
        rounds: int,
        guide: dict[Key, int] | None = None,
    ) -> None:
        self.test = test
        self.number = number
        self.thread = test.threads[number]
        self.code = self.thread.instructions
        self.values = values
        self.rounds = rounds
        self.guide = guide
        self.labels = {i.name: n for n, i in enumerate(self.code) if isinstance(i, ast.Label)}

    def runs(self) -> Iterator[ThreadRun]:
        """Every run, complete or blocked; with a guide the one whose reads return its values."""
        start = {name: (value, frozenset[Key]()) for name, value in self.thread.registers}
        yield from self._run(ThreadState(registers=start))

    def _run(self, machine: ThreadState) -> Iterator[ThreadRun]:
        while machine.pc < len(self.code):
            code = self.code[machine.pc]
            if isinstance(code, ast.Branch):
                left, a = self._get(machine, code.left)
                right, b = self._get(machine, code.right)
                if code.relation is not None:
                    machine.control |= a | b
                if code.relation is None or holds(left, code.relation, right):
                    target = self.labels[code.target]
                    if target <= machine.pc:
                        machine.round += 1
                        if machine.round > self.rounds:
                            return
                    machine.pc = target
                else:
                    machine.pc += 1
                continue
            branches = self._choices(machine, code)
            if branches is not None:
                for choice in branches:
                    other = machine.copy()
                    if self._choose(other, code, choice):
                        other.pc += 1
                        yield from self._run(other)
                    else:
                        yield self._end(other, self._later(machine.pc))
                return
            self._plain(machine, code)
            machine.pc += 1
        yield self._end(machine, frozenset())

    def _end(self, machine: ThreadState, unfinished: frozenset[str]) -> ThreadRun:
        acts = tuple(
            replace(act, exits=tuple(machine.exits.get(act.key, ()))) for act in machine.acts
        )
        registers = {name: value for name, (value, _) in machine.registers.items()}
        return ThreadRun(acts, registers, unfinished, tuple(machine.pairs))

    def _later(self, pc: int) -> frozenset[str]:
        first = min(
            [
                pc + 1,
                *(
                    self.labels[b.target]
                    for n, b in enumerate(self.code)
                    if isinstance(b, ast.Branch) and self.labels[b.target] <= pc < n
                ),
            ]
        )
        names = set()
        for code in self.code[first:]:
            name = getattr(code, "destination", None)
            if (
                isinstance(
                    code, ast.Load | ast.Atomic | ast.MatrixRead | ast.MbarrierWait | ast.Assign
                )
                and name is not None
            ):
                names.add(name)
        return frozenset(names)

    # Choices --------------------------------------------------------------------------------

    def _key(self, machine: ThreadState, part: str = "") -> Key:
        return (self.thread.name, machine.pc, machine.round, part)

    def _choices(self, machine: ThreadState, code: ast.LitmusInstruction) -> Sequence[Guess] | None:
        """The guesses to try at an instruction that reads or waits; None elsewhere."""
        if isinstance(code, ast.Load | ast.AsyncCopy | ast.MatrixRead):
            part = "" if isinstance(code, ast.Load) else "read"
            place = code.source if isinstance(code, ast.AsyncCopy) else code.location
            return [(v,) for v in self._guesses(machine, place, part)]
        if isinstance(code, ast.DescriptorCopy):
            return [(v,) for v in self._guesses(machine, code.source, "read")]
        if isinstance(code, ast.AsyncStore):
            if code.reduction is None:
                return [()]
            return [(v,) for v in self._guesses(machine, code.location, "old")]
        if isinstance(code, ast.Atomic):
            return [(v,) for v in self._guesses(machine, code.location, "read")]
        if isinstance(code, ast.BulkCopy):
            found: list[Guess] = [()]
            old = code.destinations[0] if code.reduction is not None else None
            for part, spot in (("map", code.tensormap), ("read", code.source), ("old", old)):
                if spot is not None:
                    found = [(*f, v) for f in found for v in self._guesses(machine, spot, part)]
            return found
        waits = isinstance(code, ast.Barrier | ast.ClusterBarrier) and code.waits
        if waits or isinstance(code, ast.MbarrierWait):
            if self.guide is not None:
                return [(self.guide.get(self._key(machine), 1),)]
            return [(1,), (0,)]
        return None

    def _guesses(self, machine: ThreadState, spot: str, part: str) -> list[int]:
        if self.guide is not None:
            key = self._key(machine, part)
            return [self.guide[key]] if key in self.guide else []
        return sorted(self.values[self.test.memory(spot)])

    def _choose(self, machine: ThreadState, code: ast.LitmusInstruction, choice: Guess) -> bool:
        """Apply a guess; false when the thread stays blocked there."""
        match code:
            case ast.Load():
                act = self._act(
                    machine,
                    StepKind.READ,
                    spot=code.location,
                    proxy=code.proxy,
                    sem=code.semantics.value,
                    scope=code.scope,
                    value=choice[0],
                )
                machine.registers[code.destination] = (choice[0], frozenset({act.key}))
            case ast.Atomic():
                self._atomic(machine, code, choice[0])
            case ast.AsyncCopy():
                self._copy(machine, code, choice[0])
            case ast.AsyncStore():
                self._async_store(machine, code, *choice)
            case ast.DescriptorCopy():
                self._descriptor(machine, code, choice[0])
            case ast.MatrixRead():
                self._matrix(machine, code, choice[0])
            case ast.BulkCopy():
                self._bulk(machine, code, list(choice))
            case ast.Barrier():
                act = self._barrier(machine, code)
                act.passed, act.blocks = bool(choice[0]), True
                machine.control |= {act.key}
                return act.passed
            case ast.ClusterBarrier():
                act = self._act(
                    machine,
                    StepKind.CLUSTER_WAIT,
                    sem=code.semantics.value,
                    scope=ast.Scope.CLUSTER,
                )
                act.passed, act.blocks = bool(choice[0]), True
                machine.control |= {act.key}
                return act.passed
            case ast.MbarrierWait():
                act = self._act(
                    machine,
                    StepKind.WAIT,
                    spot=code.location,
                    sem=code.semantics.value,
                    scope=code.scope,
                )
                act.passed, act.blocks = bool(choice[0]), code.destination is None
                if code.destination is None:
                    machine.control |= {act.key}
                    return act.passed
                machine.registers[code.destination] = (choice[0], frozenset({act.key}))
        return True

    # Instructions -----------------------------------------------------------------------------

    def _get(self, machine: ThreadState, operand: ast.Operand) -> tuple[int, frozenset[Key]]:
        if isinstance(operand, Register):
            return machine.registers.get(operand.name, (0, frozenset()))
        return operand, frozenset()

    def _act(
        self,
        machine: ThreadState,
        kind: StepKind,
        part: str = "",
        needs: frozenset[Key] = frozenset(),
        place: ThreadPlacement | None = None,
        **fields: Unpack[EventFields],
    ) -> RunEvent:
        """Append an event of the instruction at hand, in program order unless `step` is None."""
        fields.setdefault("step", (machine.round * len(self.code) + machine.pc) * 4)
        act = RunEvent(
            self._key(machine, part),
            kind,
            self.number,
            place or self.thread.placement,
            needs=tuple(machine.control | needs),
            code=self.code[machine.pc],
            **fields,
        )
        machine.acts.append(act)
        return act

    def _plain(self, machine: ThreadState, code: ast.LitmusInstruction) -> None:
        match code:
            case ast.Store():
                value, taint = self._get(machine, code.value)
                self._act(
                    machine,
                    StepKind.WRITE,
                    spot=code.location,
                    proxy=code.proxy,
                    sem=code.semantics.value,
                    scope=code.scope,
                    value=value,
                    needs=taint,
                )
            case ast.Fence():
                self._act(machine, StepKind.FENCE, sem=code.semantics.value, scope=code.scope)
            case ast.ProxyFence():
                fence = self._act(machine, StepKind.PROXY_FENCE, proxy=code.proxy, scope=code.scope)
                fence.spot = code.location
            case ast.AliasFence():
                self._act(machine, StepKind.ALIAS_FENCE)
            case ast.MbarrierInitFence():
                self._act(machine, StepKind.INIT_FENCE)
            case ast.Barrier():
                self._barrier(machine, code)
            case ast.ClusterBarrier():
                self._act(
                    machine,
                    StepKind.CLUSTER_ARRIVE,
                    sem=code.semantics.value,
                    scope=ast.Scope.CLUSTER,
                )
            case ast.Assign():
                parts = [self._get(machine, operand) for operand in code.operands]
                taint = frozenset(key for _, keys in parts for key in keys)
                machine.registers[code.destination] = (
                    compute(code.operation, [value for value, _ in parts]),
                    taint,
                )
            case ast.MbarrierInit():
                self._act(machine, StepKind.INIT, spot=code.location, count=code.count)
            case ast.MbarrierArrive():
                self._act(
                    machine,
                    StepKind.ARRIVE,
                    spot=code.location,
                    sem=code.semantics.value,
                    scope=code.scope,
                    count=code.count,
                    expect=code.expect,
                )
            case ast.MbarrierExpect():
                self._act(machine, StepKind.EXPECT, spot=code.location, expect=code.expect)
            case ast.AsyncCopyArrive():
                self._copy_arrival(machine, code)
            case ast.TensorCommit():
                self._arrival_after(machine, code.location, ast.Scope.CLUSTER, machine.matrix)
            case ast.CommitGroup():
                machine.groups.setdefault(code.kind.value, [[]]).append([])
            case ast.WaitGroup():
                self._group_wait(machine, code)

    def _copy_arrival(self, machine: ThreadState, code: ast.AsyncCopyArrive) -> None:
        if not code.noinc:
            step = (machine.round * len(self.code) + machine.pc) * 4 - 1
            self._act(
                machine, StepKind.EXPECT, "increment", spot=code.location, count=-1, step=step
            )
        self._arrival_after(machine, code.location, ast.Scope.CTA, machine.copies)

    def _arrival_after(
        self, machine: ThreadState, barrier: str, scope: ast.Scope, accesses: list[Key]
    ) -> None:
        """One arrival at an mbarrier when the accesses are complete."""
        act = self._arrival(machine, barrier, "arrive", scope)
        act.count = 1
        for key in accesses:
            machine.exits.setdefault(key, []).append(act.key)

    def _barrier(self, machine: ThreadState, code: ast.Barrier) -> RunEvent:
        ident, taint = self._get(machine, code.identifier)
        count, more = self._get(machine, code.count if code.count is not None else 0)
        return self._act(machine, StepKind.BARRIER, ident=ident, count=count, needs=taint | more)

    def _atomic(self, machine: ThreadState, code: ast.Atomic, old: int) -> None:
        acquires = (
            code.semantics.value in ("acquire", "acq_rel", "sc") and code.destination is not None
        )
        releases = code.semantics.value in ("release", "acq_rel", "sc")
        single = code.semantics.value == "sc"
        read = self._act(
            machine,
            StepKind.READ,
            "read",
            spot=code.location,
            value=old,
            scope=code.scope,
            sem=("sc" if single else "acquire") if acquires else "relaxed",
            reduction=code.destination is None,
        )
        parts = [self._get(machine, operand) for operand in code.operands]
        taint = frozenset({read.key}).union(*(keys for _, keys in parts))
        values = [value for value, _ in parts]
        new: int | None
        if code.operation == "cas":
            new = values[1] if old == values[0] else None
        else:
            new = compute(code.operation, [old, values[0]])
        if new is not None:
            assert read.step is not None
            write = self._act(
                machine,
                StepKind.WRITE,
                "write",
                spot=code.location,
                value=new,
                scope=code.scope,
                sem=("sc" if single else "release") if releases else "relaxed",
                needs=taint,
                step=read.step + 1,
            )
            machine.pairs.append((read.key, write.key))
        if code.destination is not None:
            machine.registers[code.destination] = (old, frozenset({read.key}))

    # Asynchronous operations ------------------------------------------------------------------

    def _issue(self, machine: ThreadState) -> Key:
        key = self._key(machine, "issue")
        if all(act.key != key for act in machine.acts):
            self._act(machine, StepKind.ISSUE, "issue")
        return key

    def _arrival(self, machine: ThreadState, spot: str, part: str, scope: ast.Scope) -> RunEvent:
        home = self.test.location(spot).home or self.thread.placement
        return self._act(
            machine,
            StepKind.ARRIVE,
            part,
            spot=spot,
            sem="release",
            scope=scope,
            place=home,
            step=None,
            issue=self._issue(machine),
        )

    def _asynchronous(
        self,
        machine: ThreadState,
        kind: StepKind,
        part: str,
        needs: frozenset[Key] = frozenset(),
        **fields: Unpack[EventFields],
    ) -> RunEvent:
        """Append one access of an asynchronous operation: where the memory is, at no step."""
        home = self.test.location(fields["spot"]).home or self.thread.placement
        fields.update({"step": None, "issue": self._issue(machine)})
        return self._act(machine, kind, part, needs, home, **fields)

    def _bulk(self, machine: ThreadState, code: ast.BulkCopy, guesses: list[int]) -> None:
        chain: frozenset[Key] = frozenset()
        reads: list[Key] = []
        value = 0
        for part, spot, proxy in (
            ("map", code.tensormap, Proxy.TENSORMAP),
            ("read", code.source, Proxy.ASYNC),
        ):
            if spot is not None:
                value = guesses.pop(0)
                act = self._asynchronous(
                    machine,
                    StepKind.READ,
                    part,
                    spot=spot,
                    value=value,
                    proxy=proxy,
                    implicit=True,
                    needs=chain,
                )
                chain = frozenset({act.key})
                reads.append(act.key)
        sem: str = "weak"
        scope: ast.Scope | None = None
        if code.reduction is not None:
            sem, scope = "relaxed", ast.Scope.GPU
            before = guesses.pop(0)
            old = self._asynchronous(
                machine,
                StepKind.READ,
                "old",
                spot=code.destinations[0],
                value=before,
                proxy=Proxy.ASYNC,
                implicit=True,
                reduction=True,
                sem=sem,
                scope=scope,
            )
            chain |= {old.key}
            reads.append(old.key)
            value = compute(code.reduction, [before, value])
        writes = [
            self._asynchronous(
                machine,
                StepKind.WRITE,
                f"write{n}",
                spot=spot,
                value=value,
                proxy=Proxy.ASYNC,
                implicit=True,
                needs=chain,
                sem=sem,
                scope=scope,
            ).key
            for n, spot in enumerate(code.destinations)
        ]
        if code.reduction is not None:
            machine.pairs.append((reads[-1], writes[0]))
        if not code.barriers:
            machine.groups.setdefault("cp.async.bulk", [[]])[-1] += reads + writes
        for n, barrier in enumerate(code.barriers):
            done = self._arrival(machine, barrier, f"complete{n}", ast.Scope.CLUSTER)
            done.expect = -code.size
            done.needs += (*reads, writes[n])
            for key in (*reads, writes[n]):
                machine.exits.setdefault(key, []).append(done.key)

    def _descriptor(self, machine: ThreadState, code: ast.DescriptorCopy, value: int) -> None:
        read = self._act(machine, StepKind.READ, "read", spot=code.source, value=value)
        assert read.step is not None
        self._act(
            machine,
            StepKind.WRITE,
            "write",
            spot=code.destination,
            value=value,
            needs=frozenset({read.key}),
            step=read.step + 1,
        )
        fence = self._act(
            machine,
            StepKind.PROXY_FENCE,
            "fence",
            proxy=Proxy.TENSORMAP,
            scope=code.scope,
            step=read.step + 2,
        )
        fence.code = ast.copy_fence(code)

    def _async_store(
        self, machine: ThreadState, code: ast.AsyncStore, before: int | None = None
    ) -> None:
        value, taint = self._get(machine, code.value)
        sem: str = "weak"
        scope: ast.Scope | None = None
        keys: list[Key] = []
        if code.reduction is not None and before is not None:
            sem, scope = "relaxed", ast.Scope.CLUSTER
            old = self._asynchronous(
                machine,
                StepKind.READ,
                "old",
                spot=code.location,
                value=before,
                reduction=True,
                sem=sem,
                scope=scope,
            )
            old.place = self.thread.placement  # of the issuer, not of the data
            keys.append(old.key)
            taint |= {old.key}
            value = compute(code.reduction, [before, value])
        write = self._asynchronous(
            machine,
            StepKind.WRITE,
            "write0",
            spot=code.location,
            value=value,
            needs=taint,
            sem=sem,
            scope=scope,
        )
        write.place = self.thread.placement
        if keys:
            machine.pairs.append((keys[0], write.key))
        done = self._arrival(machine, code.barrier, "complete0", ast.Scope.CLUSTER)
        done.expect = -code.size
        for key in (*keys, write.key):
            done.needs += (key,)
            machine.exits.setdefault(key, []).append(done.key)

    def _copy(self, machine: ThreadState, code: ast.AsyncCopy, value: int) -> None:
        read = self._asynchronous(machine, StepKind.READ, "read", spot=code.source, value=value)
        write = self._asynchronous(
            machine,
            StepKind.WRITE,
            "write0",
            spot=code.destination,
            value=value,
            needs=frozenset({read.key}),
        )
        machine.copies += [read.key, write.key]
        machine.groups.setdefault("cp.async", [[]])[-1] += [read.key, write.key]

    def _matrix(self, machine: ThreadState, code: ast.MatrixRead, value: int) -> None:
        read = self._asynchronous(
            machine,
            StepKind.READ,
            "read",
            spot=code.location,
            value=value,
            proxy=Proxy.ASYNC,
            implicit=not code.tensor_memory,
            tensor=code.tensor_memory,
        )
        machine.registers[code.destination] = (value, frozenset({read.key}))
        if code.tensor_memory:
            machine.matrix.append(read.key)
        else:
            machine.groups.setdefault("wgmma", [[]])[-1].append(read.key)

    def _group_wait(self, machine: ThreadState, code: ast.WaitGroup) -> None:
        act = self._act(machine, StepKind.GROUP_WAIT)
        groups = machine.groups.setdefault(code.kind.value, [[]])
        if code.commits:
            groups.append([])
        closed = groups[:-1]
        kinds = {a.key: a.kind for a in machine.acts}
        for group in closed[: max(0, len(closed) - code.pending)]:
            for key in group:
                if kinds[key] is StepKind.READ or not code.read:
                    machine.exits.setdefault(key, []).append(act.key)
