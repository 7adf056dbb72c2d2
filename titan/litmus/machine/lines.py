"""Second engine of the machine: caches with explicit lines, played step by step.

Where `explorer` bounds the age of what a cache may return, this one has the lines themselves: a
cache holds a value or none, clean or dirty; a line is fetched at any time, dropped when a load
wants to miss, and written back at any time. The way from a CU to L2 is one queue for each location,
in which loads that miss, stores and atomics follow each other. It is slower and closer to a
drawing of the hardware; it shares the program and its instructions with `explorer`, no code.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations
from typing import NamedTuple

from titan.litmus.language.ast import Operand
from titan.litmus.language.machine_steps import CdnaStep, StepForm
from titan.litmus.machine.explorer import Outcome, TooManyStates
from titan.litmus.machine.program import MachineProgram, Node

Token = tuple[int, int]
DIRTY, CLEAN = True, False
_LOCAL = (StepForm.LDS_READ, StepForm.LDS_WRITE, StepForm.LDS_ATOMIC, StepForm.SCALAR)
_GLOBAL = (StepForm.LOAD, StepForm.STORE, StepForm.ATOMIC, StepForm.COPY, StepForm.WRITE_BACK)


class _Line(NamedTuple):
    value: int
    dirty: bool


class _Pending(NamedTuple):
    """An operation that a counter counts; `result` is None until it is done."""

    token: Token
    inputs: tuple[int, ...] = ()
    result: int | None = None
    fetched: int | None = None  # what LDS DMA has read and not written
    behind: frozenset[Token] = frozenset()  # stores that a write-back follows
    returned: bool = False


@dataclass(slots=True)
class _Board:
    at: list[int]
    registers: list[dict[str, int]]
    vector: list[list[_Pending]]
    local: list[list[_Pending]]
    waiting: set[int]
    memory: dict[str, int]
    lds: dict[str, int]
    lines: dict[tuple[Node, str], _Line] = field(default_factory=dict)
    ways: dict[tuple[Node, str], tuple[Token, ...]] = field(default_factory=dict)

    def copy(self) -> _Board:
        return _Board(
            list(self.at), [dict(r) for r in self.registers], [list(q) for q in self.vector],
            [list(q) for q in self.local], set(self.waiting), dict(self.memory), dict(self.lds),
            dict(self.lines), dict(self.ways),
        )  # fmt: skip

    def key(self) -> object:
        return (
            tuple(self.at), tuple(tuple(sorted(r.items())) for r in self.registers),
            tuple(map(tuple, self.vector)), tuple(map(tuple, self.local)),
            frozenset(self.waiting), tuple(self.memory.values()), tuple(self.lds.values()),
            frozenset(self.lines.items()), frozenset((k, v) for k, v in self.ways.items() if v),
        )  # fmt: skip


class LineMachine:
    """Every outcome of one program, by lines."""

    def __init__(self, program: MachineProgram, states_max: int = 200_000) -> None:
        self.program, self.states_max = program, states_max
        self.code = [wave.steps for wave in program.waves]
        self.path = [program.path(n) for n in range(len(program.waves))]
        self.above = {p[i]: p[i + 1] for p in self.path for i in range(len(p) - 1)}
        self.goal = [
            {s.target: n for n, s in enumerate(steps) if s.form is StepForm.LABEL}
            for steps in self.code
        ]
        self.fetchable = {
            (node, step.source or step.location)
            for steps, path in zip(self.code, self.path, strict=True)
            for step in steps
            if step.form in (StepForm.LOAD, StepForm.COPY)
            for node in path[:-1]
        }

    def outcomes(self) -> set[Outcome]:
        """(registers, memory) of every end at which all waves have ended."""
        waves = self.program.waves
        start = _Board(
            [0] * len(waves), [dict(w.registers) for w in waves], [[] for _ in waves],
            [[] for _ in waves], set(), dict(self.program.memory), dict(self.program.lds),
        )  # fmt: skip
        seen, work, found = {start.key()}, [start], set()
        while work:
            board = work.pop()
            if self._over(board):
                found.add(self._outcome(board))
            for other in self._next(board):
                key = other.key()
                if key not in seen:
                    seen.add(key)
                    work.append(other)
            if len(seen) > self.states_max:
                raise TooManyStates(f"more than {self.states_max} states")
        return found

    def _over(self, board: _Board) -> bool:
        ended = all(at == len(code) for at, code in zip(board.at, self.code, strict=True))
        idle = all(p.result is not None for q in (*board.vector, *board.local) for p in q)
        return ended and idle and not any(line.dirty for line in board.lines.values())

    def _outcome(self, board: _Board) -> Outcome:
        registers = []
        for n, wave in enumerate(self.program.waves):
            final = dict(board.registers[n])
            for pending in (*board.vector[n], *board.local[n]):
                self._back(final, n, pending)
            registers += [(wave.name, name, value) for name, value in final.items()]
        memory = [*board.memory.items(), *board.lds.items()]
        return tuple(sorted(registers)), tuple(sorted(memory))

    def _back(self, registers: dict[str, int], wave: int, pending: _Pending) -> None:
        """The result comes to its register, once."""
        step = self.code[wave][pending.token[1]]
        if step.destination is not None and not pending.returned and pending.result is not None:
            registers[step.destination] = pending.result

    # Steps --------------------------------------------------------------------------------

    def _next(self, board: _Board) -> Iterator[_Board]:
        for n in range(len(self.code)):
            if board.at[n] < len(self.code[n]) and n not in board.waiting:
                yield from self._execute(board, n, self.code[n][board.at[n]])
            yield from self._serve(board, n)
        yield from self._meet(board)
        yield from self._fetch(board)
        for (node, name), line in board.lines.items():
            if line.dirty:
                after = board.copy()
                self._clean(after, node, name)
                yield after

    def _execute(self, board: _Board, n: int, step: CdnaStep) -> Iterator[_Board]:
        if step.form is StepForm.WAIT:
            yield from self._wait(board, n, step)
            return
        names = {o.name for o in step.operands if not isinstance(o, int)}
        for ready in self._returns(board, n, names):
            after = ready.copy()
            token = (n, after.at[n])
            after.at[n] += 1
            inputs = tuple(self._input(after, n, operand) for operand in step.operands)
            if step.form in _LOCAL:
                after.local[n].append(_Pending(token, inputs))
            elif step.form in _GLOBAL:
                yield from self._enter(after, n, step, token, inputs)
                continue
            elif step.form is StepForm.INVALIDATE:
                for node, level in zip(self.path[n], self.program.levels(), strict=True):
                    if level in step.levels and node in self.above:
                        self._drop(after, node)
            elif step.form is StepForm.BARRIER:
                after.waiting.add(n)
            elif step.form is StepForm.ASSIGN and step.destination is not None:
                after.registers[n][step.destination] = inputs[0]
            elif step.form is StepForm.BRANCH and _taken(step.relation, *inputs):
                after.at[n] = self.goal[n][step.target]
            yield after

    @staticmethod
    def _input(board: _Board, n: int, operand: Operand) -> int:
        return operand if isinstance(operand, int) else board.registers[n].get(operand.name, 0)

    @staticmethod
    def _drop(board: _Board, node: Node) -> None:
        clean = [k for k, line in board.lines.items() if k[0] == node and not line.dirty]
        for key in clean:
            del board.lines[key]

    def _enter(
        self, board: _Board, n: int, step: CdnaStep, token: Token, inputs: tuple[int, ...]
    ) -> Iterator[_Board]:
        """An access leaves for its CU's L1: it hits there, or goes on its way to L2."""
        cu = self.path[n][0]
        if step.form is StepForm.WRITE_BACK:
            stores = {t for (node, _), way in board.ways.items() if node == cu
                      for t in way if self._at(t).form is StepForm.STORE}  # fmt: skip
            board.vector[n].append(_Pending(token, behind=frozenset(stores)))
            yield board
            return
        name = step.source or step.location
        assert name is not None
        way = board.ways.get((cu, name), ())
        if step.form is StepForm.STORE:
            if any(self._at(t).form is StepForm.ATOMIC for t in way):
                return  # L1 does not know the value that comes before this one
            if cu in self.above:
                board.lines[(cu, name)] = _Line(inputs[0], CLEAN)
        else:
            reads = step.form in (StepForm.LOAD, StepForm.COPY)
            plain = reads and self.program.depth(self.program.reach(step)) == 0
            line = board.lines.get((cu, name))
            alone = all(self._at(t).form is StepForm.STORE for t in way)
            if plain and line is not None and alone:
                hit = board.copy()
                kept = _Pending(token, inputs, fetched=line.value)
                if step.form is not StepForm.COPY:
                    kept = kept._replace(result=line.value, fetched=None)
                hit.vector[n].append(kept)
                yield hit
        board.ways[(cu, name)] = (*way, token)
        board.vector[n].append(_Pending(token, inputs))
        yield board

    def _at(self, token: Token) -> CdnaStep:
        return self.code[token[0]][token[1]]

    def _serve(self, board: _Board, n: int) -> Iterator[_Board]:
        """What is under way for a wave: at L2 and beyond, at LDS."""
        cu = self.path[n][0]
        for place, pending in enumerate(board.vector[n]):
            step = self._at(pending.token)
            if pending.result is not None:
                continue
            name = step.source or step.location
            if step.form is StepForm.WRITE_BACK:
                under_way = {t for key, way in board.ways.items() if key[0] == cu for t in way}
                if not pending.behind & under_way:
                    after = board.copy()
                    for node in self.path[n][1 : self.program.depth(step.reach)]:
                        for _, name in [k for k in after.lines if k[0] == node]:
                            self._clean(after, node, name)
                    self._done(after, n, place, 0)
                    yield after
            elif pending.fetched is not None and step.location is not None:
                after = board.copy()
                after.lds[step.location] = pending.fetched
                self._done(after, n, place, pending.fetched)
                yield after
            elif name is not None and board.ways.get((cu, name), ())[:1] == (pending.token,):
                yield from self._arrive(board, n, place, step, name)
        yield from self._serve_local(board, n)

    def _done(self, board: _Board, n: int, place: int, result: int) -> None:
        board.vector[n][place] = board.vector[n][place]._replace(
            result=result, fetched=None, behind=frozenset()
        )

    def _arrive(
        self, board: _Board, n: int, place: int, step: CdnaStep, name: str
    ) -> Iterator[_Board]:
        """The first of a way leaves it, and is served at the level of its reach."""
        path = self.path[n]
        depth = self.program.depth(self.program.reach(step))
        after = board.copy()
        after.ways[(path[0], name)] = after.ways[(path[0], name)][1:]
        if step.form in (StepForm.STORE, StepForm.ATOMIC):
            depth = min(max(depth, 1), len(path) - 1)
            for node in path[1:depth]:
                self._clean(after, node, name)
            result = 0
            value: int | None = after.vector[n][place].inputs[0]
            if step.form is StepForm.ATOMIC:
                for node in path[depth:-1]:
                    line = after.lines.get((node, name))
                    if line is not None and not line.dirty:
                        del after.lines[(node, name)]
                result = self._newest(after, path[depth:], name)
                value = _combined(step.operation, result, after.vector[n][place].inputs)
                after.lines.pop((path[0], name), None)
            if value is not None:
                for node in path[1:depth]:
                    after.lines[(node, name)] = _Line(value, CLEAN)
                self._put(after, path[depth], name, value)
            self._done(after, n, place, result)
            yield after
            return
        for node in path[1:depth]:  # a coherent load passes these caches by
            line = after.lines.get((node, name))
            if line is not None and not line.dirty:
                del after.lines[(node, name)]
        yield from self._load(after, n, place, step, name, max(depth, min(1, len(path) - 1)))

    def _load(
        self, board: _Board, n: int, place: int, step: CdnaStep, name: str, depth: int
    ) -> Iterator[_Board]:
        """The value of the first line on the way up; a clean one may have been dropped before."""
        path = self.path[n]
        stores = any(
            self._at(t).form is StepForm.STORE for t in board.ways.get((path[0], name), ())
        )
        for at, node in enumerate(path):
            if at == 0 and len(path) > 1:
                continue
            line = board.lines.get((node, name))
            if node not in self.above:
                value = board.memory[name]
            elif line is None:
                continue
            else:
                value = line.value
            after = board.copy()
            for lower in path[1:at]:
                after.lines[(lower, name)] = _Line(value, CLEAN)
            if not stores and path[0] in self.above:
                after.lines[(path[0], name)] = _Line(value, CLEAN)
            if step.form is StepForm.COPY:
                kept = after.vector[n][place]._replace(fetched=value)
                after.vector[n][place] = kept
            else:
                self._done(after, n, place, value)
            yield after
            if line is not None and line.dirty:
                return

    def _newest(self, board: _Board, path: tuple[Node, ...], name: str) -> int:
        for node in path:
            if (node, name) in board.lines:
                return board.lines[(node, name)].value
        return board.memory[name]

    def _put(self, board: _Board, node: Node, name: str, value: int) -> None:
        if node in self.above:
            board.lines[(node, name)] = _Line(value, DIRTY)
        else:
            board.memory[name] = value

    def _clean(self, board: _Board, node: Node, name: str) -> None:
        """Write a dirty line back to the level above; it stays, clean."""
        line = board.lines.get((node, name))
        if line is not None and line.dirty:
            board.lines[(node, name)] = _Line(line.value, CLEAN)
            self._put(board, self.above[node], name, line.value)

    def _fetch(self, board: _Board) -> Iterator[_Board]:
        """A cache fetches a line that nobody has asked for, as a neighbour's miss does."""
        for node, upper in self.above.items():
            for name in board.memory:
                if (node, name) in board.lines or (node, name) not in self.fetchable:
                    continue
                way = board.ways.get((node, name), ())
                if any(self._at(t).form is not StepForm.LOAD for t in way):
                    continue
                line = board.lines.get((upper, name))
                if line is None and upper in self.above:
                    continue
                after = board.copy()
                value = board.memory[name] if line is None else line.value
                after.lines[(node, name)] = _Line(value, CLEAN)
                yield after

    # LDS, waits, barriers -----------------------------------------------------------------

    def _serve_local(self, board: _Board, n: int) -> Iterator[_Board]:
        blocked = False
        for place, pending in enumerate(board.local[n]):
            step = self._at(pending.token)
            assert step.location is not None
            if pending.result is not None:
                continue
            if step.form is StepForm.SCALAR:
                for value in self._anywhere(board, n, step.location):
                    after = board.copy()
                    after.local[n][place] = pending._replace(result=value)
                    yield after
                continue
            if not blocked:
                after = board.copy()
                old = after.lds[step.location]
                if step.form is StepForm.LDS_WRITE:
                    after.lds[step.location] = pending.inputs[0]
                elif step.form is StepForm.LDS_ATOMIC:
                    new = _combined(step.operation, old, pending.inputs)
                    after.lds[step.location] = old if new is None else new
                after.local[n][place] = pending._replace(result=old)
                yield after
            blocked = True

    def _anywhere(self, board: _Board, n: int, name: str) -> set[int]:
        """Values of a location in memory, in caches, and on the way to them, and the first."""
        found = {board.memory[name], dict(self.program.memory)[name]}
        found |= {line.value for (node, x), line in board.lines.items()
                  if x == name and node in self.path[n]}  # fmt: skip
        return found

    def _wait(self, board: _Board, n: int, step: CdnaStep) -> Iterator[_Board]:
        surplus = [
            0 if allowed is None else max(0, len(queue) - allowed)
            for queue, allowed in (
                (board.vector[n], step.vmcnt), (board.local[n], step.lgkmcnt),
            )
        ]  # fmt: skip
        if any(p.result is None for p in board.vector[n][: surplus[0]]):
            return
        finished = [i for i, p in enumerate(board.local[n]) if p.result is not None]
        for gone in combinations(finished, surplus[1]):
            shared = [
                i for i, p in enumerate(board.local[n])
                if self._at(p.token).form is not StepForm.SCALAR
            ]  # fmt: skip
            if any(i in gone for i in shared[len(set(gone) & set(shared)) :]):
                continue  # LDS results come back in order
            after = board.copy()
            for pending in board.vector[n][: surplus[0]]:
                self._back(after.registers[n], n, pending)
            for i in gone:
                self._back(after.registers[n], n, board.local[n][i])
            del after.vector[n][: surplus[0]]
            after.local[n] = [p for i, p in enumerate(board.local[n]) if i not in gone]
            after.at[n] += 1
            yield after

    def _returns(self, board: _Board, n: int, names: set[str]) -> Iterator[_Board]:
        """As it is, or with results in flight of these registers back already."""
        yield board
        for kind in (board.vector, board.local):
            queue = kind[n]
            for i, pending in enumerate(queue):
                if pending.result is None:
                    break
                if self._at(pending.token).destination in names and not pending.returned:
                    after = board.copy()
                    mine = (after.vector if kind is board.vector else after.local)[n]
                    for j in range(i + 1):
                        self._back(after.registers[n], n, mine[j])
                        mine[j] = mine[j]._replace(returned=True)
                    yield after

    def _meet(self, board: _Board) -> Iterator[_Board]:
        for group in {w.place.group for w in self.program.waves}:
            there = [n for n, w in enumerate(self.program.waves) if w.place.group == group]
            here = [n for n in there if n in board.waiting]
            if here and all(n in here or board.at[n] == len(self.code[n]) for n in there):
                after = board.copy()
                after.waiting -= set(here)
                yield after


def _taken(relation: str | None, left: int, right: int) -> bool:
    match relation:
        case "==":
            return left == right
        case "!=":
            return left != right
        case "<":
            return left < right
        case "<=":
            return left <= right
        case ">":
            return left > right
    return relation is None or left >= right


def _combined(operation: str, old: int, inputs: tuple[int, ...]) -> int | None:
    match operation, inputs:
        case "cas", (expected, new):
            return new if old == expected else None
        case "add", (value,):
            return old + value
        case "sub", (value,):
            return old - value
        case "exch", (value,):
            return value
        case "min", (value,):
            return min(old, value)
        case "max", (value,):
            return max(old, value)
        case "and", (value,):
            return old & value
        case "or", (value,):
            return old | value
        case "xor", (value,):
            return old ^ value
    raise ValueError(operation)
