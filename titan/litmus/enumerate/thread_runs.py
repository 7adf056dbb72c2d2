"""Second engine, part one: every run of every thread with guessed read values, and the schedules.

Imports no solver and none of the first engine. A thread is run as a small interpreter that branches
over the values a read may return and over whether a wait passes; `schedules` then plays barriers
and mbarriers operationally, step by step, and reports who met whom.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from titan.litmus.language import ast
from titan.litmus.language.ast import LitmusTest, Proxy, Register, ThreadPlacement

Key = tuple[str, int, int, str]


@dataclass(slots=True, eq=False)
class Act:
    """One event of one run."""

    key: Key
    what: str
    thread: int
    place: ThreadPlacement
    step: int | None = None
    spot: str | None = None
    proxy: Proxy = Proxy.GENERIC
    sem: str = "weak"
    scope: ast.Scope | None = None
    value: int | None = None
    needs: tuple[Key, ...] = ()
    issue: Key | None = None
    exits: tuple[Key, ...] = ()
    implicit: bool = False
    code: ast.LitmusInstruction | None = None
    ident: int = 0
    count: int = 0
    expect: int = 0
    passed: bool = True
    blocks: bool = False
    reduction: bool = False


@dataclass(slots=True)
class ThreadRun:
    """One complete (or blocked) run of a thread."""

    acts: tuple[Act, ...]
    registers: dict[str, int]
    unfinished: frozenset[str]
    pairs: tuple[tuple[Key, Key], ...]


@dataclass(slots=True)
class _Machine:
    """Interpreter state; copied at every choice."""

    pc: int = 0
    round: int = 0
    registers: dict[str, tuple[int, frozenset[Key]]] = field(default_factory=dict)
    control: frozenset[Key] = frozenset()
    acts: list[Act] = field(default_factory=list)
    pairs: list[tuple[Key, Key]] = field(default_factory=list)
    groups: dict[str, list[list[Key]]] = field(default_factory=dict)
    copies: list[Key] = field(default_factory=list)
    matrix: list[Key] = field(default_factory=list)
    exits: dict[Key, list[Key]] = field(default_factory=dict)

    def copy(self) -> _Machine:
        return replace(
            self,
            registers=dict(self.registers),
            acts=list(self.acts),
            pairs=list(self.pairs),
            groups={k: [list(g) for g in v] for k, v in self.groups.items()},
            copies=list(self.copies),
            matrix=list(self.matrix),
            exits={k: list(v) for k, v in self.exits.items()},
        )


class ThreadRuns:
    """All runs of one thread, given the values each memory location may hold."""

    def __init__(
        self,
        test: LitmusTest,
        number: int,
        values: dict[str, set[int]],
        rounds: int,
        guide: dict[Key, Any] | None = None,
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
        start = {name: (value, frozenset[Key]()) for name, value in self.thread.registers}
        yield from self._run(_Machine(registers=start))

    def _run(self, machine: _Machine) -> Iterator[ThreadRun]:
        while machine.pc < len(self.code):
            code = self.code[machine.pc]
            if isinstance(code, ast.Branch):
                left, a = self._get(machine, code.left)
                right, b = self._get(machine, code.right)
                if code.relation is not None:
                    machine.control |= a | b
                if code.relation is None or _holds(left, code.relation, right):
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

    def _end(self, machine: _Machine, unfinished: frozenset[str]) -> ThreadRun:
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

    def _key(self, machine: _Machine, part: str = "") -> Key:
        return (self.thread.name, machine.pc, machine.round, part)

    def _choices(self, machine: _Machine, code: ast.LitmusInstruction) -> list[Any] | None:
        """The guesses to try at an instruction that reads or waits; None elsewhere."""
        if isinstance(code, ast.Load | ast.AsyncCopy | ast.MatrixRead):
            part = "" if isinstance(code, ast.Load) else "read"
            place = code.source if isinstance(code, ast.AsyncCopy) else code.location
            return self._guesses(machine, place, part)
        if isinstance(code, ast.DescriptorCopy):
            return self._guesses(machine, code.source, "read")
        if isinstance(code, ast.AsyncStore):
            reduces = code.reduction is not None
            return self._guesses(machine, code.location, "old") if reduces else [None]
        if isinstance(code, ast.Atomic):
            return self._guesses(machine, code.location, "read")
        if isinstance(code, ast.BulkCopy):
            found: list[tuple[int, ...]] = [()]
            old = code.destinations[0] if code.reduction is not None else None
            for part, spot in (("map", code.tensormap), ("read", code.source), ("old", old)):
                if spot is not None:
                    found = [(*f, v) for f in found for v in self._guesses(machine, spot, part)]
            return found
        waits = isinstance(code, ast.Barrier | ast.ClusterBarrier) and code.waits
        if waits or isinstance(code, ast.MbarrierWait):
            if self.guide is not None:
                return [self.guide.get(self._key(machine), True)]
            return [True, False]
        return None

    def _guesses(self, machine: _Machine, spot: str, part: str) -> list[int]:
        if self.guide is not None:
            key = self._key(machine, part)
            return [self.guide[key]] if key in self.guide else []
        return sorted(self.values[self.test.memory(spot)])

    def _choose(self, machine: _Machine, code: ast.LitmusInstruction, choice: Any) -> bool:
        """Apply a guess; false when the thread stays blocked there."""
        match code:
            case ast.Load():
                act = self._act(
                    machine,
                    "R",
                    spot=code.location,
                    proxy=code.proxy,
                    sem=code.semantics.value,
                    scope=code.scope,
                    value=choice,
                )
                machine.registers[code.destination] = (choice, frozenset({act.key}))
            case ast.Atomic():
                self._atomic(machine, code, choice)
            case ast.AsyncCopy():
                self._copy(machine, code, choice)
            case ast.AsyncStore():
                self._async_store(machine, code, choice)
            case ast.DescriptorCopy():
                self._descriptor(machine, code, choice)
            case ast.MatrixRead():
                self._matrix(machine, code, choice)
            case ast.BulkCopy():
                self._bulk(machine, code, list(choice))
            case ast.Barrier():
                act = self._barrier(machine, code)
                act.passed, act.blocks = choice, True
                machine.control |= {act.key}
                return bool(choice)
            case ast.ClusterBarrier():
                act = self._act(machine, "cwait", sem=code.semantics.value, scope=ast.Scope.CLUSTER)
                act.passed, act.blocks = choice, True
                machine.control |= {act.key}
                return bool(choice)
            case ast.MbarrierWait():
                act = self._act(
                    machine, "wait", spot=code.location, sem=code.semantics.value, scope=code.scope
                )
                act.passed, act.blocks = choice, code.destination is None
                if code.destination is None:
                    machine.control |= {act.key}
                    return bool(choice)
                machine.registers[code.destination] = (int(choice), frozenset({act.key}))
        return True

    # Instructions -----------------------------------------------------------------------------

    def _get(self, machine: _Machine, operand: ast.Operand) -> tuple[int, frozenset[Key]]:
        if isinstance(operand, Register):
            return machine.registers.get(operand.name, (0, frozenset()))
        return operand, frozenset()

    def _act(self, machine: _Machine, what: str, part: str = "", **rest: Any) -> Act:
        rest.setdefault("step", (machine.round * len(self.code) + machine.pc) * 4)
        needs = tuple(machine.control | rest.pop("needs", frozenset()))
        place = rest.pop("place", self.thread.placement)
        act = Act(
            self._key(machine, part),
            what,
            self.number,
            place,
            needs=needs,
            code=self.code[machine.pc],
            **rest,
        )
        machine.acts.append(act)
        return act

    def _plain(self, machine: _Machine, code: ast.LitmusInstruction) -> None:
        match code:
            case ast.Store():
                value, taint = self._get(machine, code.value)
                self._act(
                    machine,
                    "W",
                    spot=code.location,
                    proxy=code.proxy,
                    sem=code.semantics.value,
                    scope=code.scope,
                    value=value,
                    needs=taint,
                )
            case ast.Fence():
                self._act(machine, "F", sem=code.semantics.value, scope=code.scope)
            case ast.ProxyFence():
                self._act(machine, "PF", proxy=code.proxy, scope=code.scope, spot=code.location)
            case ast.AliasFence():
                self._act(machine, "AF")
            case ast.MbarrierInitFence():
                self._act(machine, "IF")
            case ast.Barrier():
                self._barrier(machine, code)
            case ast.ClusterBarrier():
                self._act(machine, "carr", sem=code.semantics.value, scope=ast.Scope.CLUSTER)
            case ast.Assign():
                parts = [self._get(machine, operand) for operand in code.operands]
                taint = frozenset(key for _, keys in parts for key in keys)
                machine.registers[code.destination] = (
                    _compute(code.operation, [value for value, _ in parts]),
                    taint,
                )
            case ast.MbarrierInit():
                self._act(machine, "minit", spot=code.location, count=code.count)
            case ast.MbarrierArrive():
                self._act(
                    machine,
                    "arrive",
                    spot=code.location,
                    sem=code.semantics.value,
                    scope=code.scope,
                    count=code.count,
                    expect=code.expect,
                )
            case ast.MbarrierExpect():
                self._act(machine, "expect", spot=code.location, expect=code.expect)
            case ast.AsyncCopyArrive():
                if not code.noinc:
                    step = (machine.round * len(self.code) + machine.pc) * 4 - 1
                    self._act(
                        machine, "expect", "increment", spot=code.location, count=-1, step=step
                    )
                act = self._arrival(machine, code.location, "arrive", ast.Scope.CTA)
                act.count = 1
                for key in machine.copies:
                    machine.exits.setdefault(key, []).append(act.key)
            case ast.TensorCommit():
                act = self._arrival(machine, code.location, "arrive", ast.Scope.CLUSTER)
                act.count = 1
                for key in machine.matrix:
                    machine.exits.setdefault(key, []).append(act.key)
            case ast.CommitGroup():
                machine.groups.setdefault(code.kind.value, [[]]).append([])
            case ast.WaitGroup():
                self._group_wait(machine, code)

    def _barrier(self, machine: _Machine, code: ast.Barrier) -> Act:
        ident, taint = self._get(machine, code.identifier)
        count, more = self._get(machine, code.count if code.count is not None else 0)
        return self._act(machine, "bar", ident=ident, count=count, needs=taint | more)

    def _atomic(self, machine: _Machine, code: ast.Atomic, old: int) -> None:
        acquires = code.semantics.value in ("acquire", "acq_rel") and code.destination is not None
        releases = code.semantics.value in ("release", "acq_rel")
        read = self._act(
            machine,
            "R",
            "read",
            spot=code.location,
            value=old,
            scope=code.scope,
            sem="acquire" if acquires else "relaxed",
            reduction=code.destination is None,
        )
        parts = [self._get(machine, operand) for operand in code.operands]
        taint = frozenset({read.key}).union(*(keys for _, keys in parts))
        values = [value for value, _ in parts]
        new: int | None
        if code.operation == "cas":
            new = values[1] if old == values[0] else None
        else:
            new = _compute(code.operation, [old, values[0]])
        if new is not None:
            assert read.step is not None
            write = self._act(
                machine,
                "W",
                "write",
                spot=code.location,
                value=new,
                scope=code.scope,
                sem="release" if releases else "relaxed",
                needs=taint,
                step=read.step + 1,
            )
            machine.pairs.append((read.key, write.key))
        if code.destination is not None:
            machine.registers[code.destination] = (old, frozenset({read.key}))

    # Asynchronous operations ------------------------------------------------------------------

    def _issue(self, machine: _Machine) -> Key:
        key = self._key(machine, "issue")
        if all(act.key != key for act in machine.acts):
            self._act(machine, "issue", "issue")
        return key

    def _arrival(self, machine: _Machine, spot: str, part: str, scope: ast.Scope) -> Act:
        home = self.test.location(spot).home or self.thread.placement
        return self._act(
            machine,
            "arrive",
            part,
            spot=spot,
            sem="release",
            scope=scope,
            place=home,
            step=None,
            issue=self._issue(machine),
        )

    def _piece(
        self, machine: _Machine, what: str, part: str, spot: str, value: int, **rest: Any
    ) -> Act:
        home = self.test.location(spot).home or self.thread.placement
        return self._act(
            machine,
            what,
            part,
            spot=spot,
            value=value,
            place=home,
            step=None,
            issue=self._issue(machine),
            **rest,
        )

    def _bulk(self, machine: _Machine, code: ast.BulkCopy, guesses: list[int]) -> None:
        chain: frozenset[Key] = frozenset()
        reads: list[Key] = []
        value = 0
        for part, spot, proxy in (
            ("map", code.tensormap, Proxy.TENSORMAP),
            ("read", code.source, Proxy.ASYNC),
        ):
            if spot is not None:
                value = guesses.pop(0)
                act = self._piece(
                    machine, "R", part, spot, value, proxy=proxy, implicit=True, needs=chain
                )
                chain = frozenset({act.key})
                reads.append(act.key)
        order: dict[str, Any] = {}
        if code.reduction is not None:
            order = {"sem": "relaxed", "scope": ast.Scope.GPU}
            before = guesses.pop(0)
            old = self._piece(
                machine,
                "R",
                "old",
                code.destinations[0],
                before,
                proxy=Proxy.ASYNC,
                implicit=True,
                reduction=True,
                **order,
            )
            chain |= {old.key}
            reads.append(old.key)
            value = _compute(code.reduction, [before, value])
        writes = [
            self._piece(
                machine,
                "W",
                f"write{n}",
                spot,
                value,
                proxy=Proxy.ASYNC,
                implicit=True,
                needs=chain,
                **order,
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

    def _descriptor(self, machine: _Machine, code: ast.DescriptorCopy, value: int) -> None:
        read = self._act(machine, "R", "read", spot=code.source, value=value)
        assert read.step is not None
        self._act(
            machine,
            "W",
            "write",
            spot=code.destination,
            value=value,
            needs=frozenset({read.key}),
            step=read.step + 1,
        )
        fence = self._act(
            machine,
            "PF",
            "fence",
            proxy=Proxy.TENSORMAP,
            scope=code.scope,
            step=read.step + 2,
        )
        fence.code = ast.copy_fence(code)

    def _async_store(self, machine: _Machine, code: ast.AsyncStore, before: int | None) -> None:
        value, taint = self._get(machine, code.value)
        order: dict[str, Any] = {}
        keys: list[Key] = []
        if code.reduction is not None and before is not None:
            order = {"sem": "relaxed", "scope": ast.Scope.CLUSTER}
            old = self._piece(machine, "R", "old", code.location, before, reduction=True, **order)
            keys.append(old.key)
            taint |= {old.key}
            value = _compute(code.reduction, [before, value])
        write = self._piece(machine, "W", "write0", code.location, value, needs=taint, **order)
        if keys:
            machine.pairs.append((keys[0], write.key))
        done = self._arrival(machine, code.barrier, "complete0", ast.Scope.CLUSTER)
        done.expect = -code.size
        for key in (*keys, write.key):
            done.needs += (key,)
            machine.exits.setdefault(key, []).append(done.key)

    def _copy(self, machine: _Machine, code: ast.AsyncCopy, value: int) -> None:
        read = self._piece(machine, "R", "read", code.source, value)
        write = self._piece(
            machine, "W", "write0", code.destination, value, needs=frozenset({read.key})
        )
        machine.copies += [read.key, write.key]
        machine.groups.setdefault("cp.async", [[]])[-1] += [read.key, write.key]

    def _matrix(self, machine: _Machine, code: ast.MatrixRead, value: int) -> None:
        read = self._piece(
            machine,
            "R",
            "read",
            code.location,
            value,
            proxy=Proxy.ASYNC,
            implicit=not code.tensor_memory,
        )
        machine.registers[code.destination] = (value, frozenset({read.key}))
        if code.tensor_memory:
            machine.matrix.append(read.key)
        else:
            machine.groups.setdefault("wgmma", [[]])[-1].append(read.key)

    def _group_wait(self, machine: _Machine, code: ast.WaitGroup) -> None:
        act = self._act(machine, "gwait")
        closed = machine.groups.get(code.kind.value, [[]])[:-1]
        whats = {a.key: a.what for a in machine.acts}
        for group in closed[: len(closed) - code.pending] if code.pending else closed:
            for key in group:
                if whats[key] == "R" or not code.read:
                    machine.exits.setdefault(key, []).append(act.key)


def _holds(left: int, relation: str, right: int) -> bool:
    return {
        "==": left == right,
        "!=": left != right,
        "<": left < right,
        "<=": left <= right,
        ">": left > right,
        ">=": left >= right,
    }[relation]


def _compute(operation: str, values: list[int]) -> int:
    if operation in ("mov", "exch"):
        return values[-1]
    a, b = values
    return {
        "add": a + b,
        "sub": a - b,
        "mul": a * b,
        "min": min(a, b),
        "max": max(a, b),
        "and": a & b,
        "or": a | b,
        "xor": a ^ b,
    }[operation]
