"""Reads `.litmus` files: herd's layout for PTX, with scopes, proxies, and mbarriers.

    PTX name                                    (or `AMDGPU name`, see `amdgpu`)
    "comment"
    { x = 0; y @ generic aliases x; shared s = 0 @ cta 0; mbarrier b = 1 @ cta 0; P0:r1 = 2; }
     P0@cta 0,gpu 0 | P1@cta 1,gpu 0 ;
     st.weak x, 1   | ld.weak r0, x  ;
    scopes: (sys (gpu (cluster (cta P0) (cta P1))))
    filter (P1:r0 = 1)
    exists (P1:r0 = 1)

Placements come from the column heads or from a `scopes:` tree. Comments are `//` to the end of a
line and `(* ... *)`. Errors are `LitmusError` with the span of what is wrong.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

from titan.foundation.diagnostics.wording import nearest
from titan.foundation.source.span import Source, Span
from titan.litmus.language import amdgpu
from titan.litmus.language.ast import (
    Assign,
    AsyncCopyArrive,
    AsyncStore,
    Atomic,
    Branch,
    BulkCopy,
    Condition,
    Label,
    LitmusInstruction,
    LitmusTest,
    LitmusThread,
    Load,
    Location,
    MatrixRead,
    MbarrierArrive,
    MbarrierExpect,
    MbarrierInit,
    MbarrierWait,
    Proxy,
    Quantifier,
    Space,
    Store,
    TensorCommit,
    ThreadPlacement,
)
from titan.litmus.language.condition import ConditionReader, LitmusError
from titan.litmus.language.limits import check_limits, check_program
from titan.litmus.language.machine_steps import CdnaStep, StepForm, misplaced, read_step
from titan.litmus.language.mnemonics import InstructionError, read_instruction
from titan.litmus.model.dialect import Dialect

_HEAD = re.compile(r"\s*([A-Za-z0-9_.]+)\s*(?:@\s*(.*))?$")
_PLACE = re.compile(r"(cta|cluster|gpu)\s*(\d+)")
_TAIL = re.compile(r"^[ \t]*(scopes\s*:|filter\b|~\s*exists\b|exists\b|forall\b)", re.MULTILINE)
_ALIAS = re.compile(r"(\w+)\s*@\s*(\w+)\s+aliases\s+(\w+)$")
_REGISTER = re.compile(r"(\w+)\s*:\s*(\w+)\s*=\s*(-?\d+)$")
_LOCATION = re.compile(
    r"(?:(global|shared|mbarrier|lds)\s+)?([A-Za-z_]\w*)\s*(?:=\s*(-?\d+))?\s*(?:@\s*(.*))?$"
)


def read_litmus(path: str, text: str) -> LitmusTest:
    """Parse one `.litmus` text."""
    return _Reader(Source(path, _blank_comments(text))).read()


def _blank_comments(text: str) -> str:
    """Comments and the quoted remark keep their length, so that offsets stay true."""

    def blank(match: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", match.group())

    return re.sub(r"//[^\n]*(?<!\")$|\(\*.*?\*\)", blank, text, flags=re.S | re.M)


class _Reader:
    def __init__(self, source: Source) -> None:
        self.source = source
        self.text = source.text
        self.dialect = Dialect.PTX
        self.locations: dict[str, Location] = {}
        self.registers: dict[str, list[tuple[str, int]]] = {}

    def fail(self, message: str, start: int, end: int) -> LitmusError:
        return LitmusError(message, self.source.span(start, end))

    def read(self) -> LitmusTest:
        check_limits(self.source)
        header = re.match(r"\s*(\w+)[ \t]+(\S+)[^\n]*\n", self.text)
        if header is None or header.group(1) not in Dialect.__members__:
            words = " or ".join(f"`{word}`" for word in Dialect)
            raise self.fail(f"a litmus file starts with {words} and the name of the test", 0, 1)
        self.dialect = Dialect(header.group(1))
        opening = self.text.find("{", header.end())
        quoted = re.match(r'\s*"(.*?)"', self.text[header.end() :], re.S)
        comment = ""
        if quoted is not None:
            comment = " ".join(quoted.group(1).split())
            opening = self.text.find("{", header.end() + quoted.end())
        closing = self.text.find("}", opening)
        if opening < 0 or closing < 0:
            raise self.fail("expected the initial state in braces", header.end(), header.end() + 1)
        tails = [m for m in _TAIL.finditer(self.text, closing)]
        if not tails or tails[-1].group(1).startswith(("scopes", "filter")):
            end = len(self.text)
            raise self.fail("expected `exists`, `~exists`, or `forall`", end, end)
        program_end = tails[0].start()
        self._initial_state(opening + 1, closing)
        threads = self._program(closing + 1, program_end)
        return self._assemble(header, comment, threads, tails)

    def _assemble(
        self,
        header: re.Match[str],
        comment: str,
        threads: list[LitmusThread],
        tails: list[re.Match[str]],
    ) -> LitmusTest:
        self._declare_implied(threads)
        filtered: Condition | None = None
        for match, following in zip(tails, [*tails[1:], None], strict=True):
            end = following.start() if following is not None else len(self.text)
            keyword = match.group(1).replace(" ", "")
            if keyword.startswith("scopes"):
                threads = self._scopes(threads, match.end(), end)
            elif keyword == "filter":
                filtered = self._condition(threads, match.end(), end)
            elif following is not None:
                raise self.fail("text follows the condition", following.start(), following.end())
        last = tails[-1]
        condition = self._condition(threads, last.end(), len(self.text))
        self._check_declared(threads)
        self._check_clusters(threads)
        if self.dialect.amd:
            self._check_lds(threads, self._homed(threads))
        return LitmusTest(
            header.group(2),
            tuple(self._homed(threads)),
            tuple(threads),
            Quantifier(last.group(1).replace(" ", "")),
            condition,
            comment,
            filtered,
            self.source.span(header.start(1), header.end(2)),
            self.dialect,
        )

    # Initial state ------------------------------------------------------------------------

    def _initial_state(self, start: int, end: int) -> None:
        for begin, stop in self._pieces(start, end, ";"):
            entry = self.text[begin:stop]
            span = self.source.span(begin, stop)
            if match := _ALIAS.match(entry):
                self._declare_alias(match, span)
            elif match := _REGISTER.match(entry):
                name = self._thread_name(match.group(1))
                self.registers.setdefault(name, []).append((match.group(2), int(match.group(3))))
            elif match := _LOCATION.match(entry):
                self._declare(match, span)
            else:
                raise LitmusError("this is not a declaration of a location or a register", span)

    @staticmethod
    def _thread_name(text: str) -> str:
        return f"P{text}" if text.isdigit() else text

    def _declare_alias(self, match: re.Match[str], span: Span) -> None:
        name, proxy, target = match.groups()
        if proxy not in ("generic", "surface", "texture", "constant"):
            raise LitmusError(f"`{proxy}` is not a proxy that views memory", span)
        if target not in self.locations:
            raise LitmusError(f"unknown location `{target}`", span)
        if name in self.locations:
            raise LitmusError(f"location `{name}` is declared twice", span)
        base = self.locations[target]
        self.locations[name] = replace(
            base, name=name, proxy=Proxy(proxy), alias_of=target, span=span
        )

    def _declare(self, match: re.Match[str], span: Span) -> None:
        kind, name, value, place = match.groups()
        if name in self.locations:
            raise LitmusError(f"location `{name}` is declared twice", span)
        amd = self.dialect.amd
        if kind in (("shared", "mbarrier") if amd else ("lds",)):
            raise LitmusError(f"{self.dialect} has no `{kind}`", span)
        home = None
        if kind in ("shared", "mbarrier", "lds"):
            home = ThreadPlacement(-1, -1, -1)
            if place:
                home = self._placed(place, 0, span).group
        elif place:
            raise LitmusError("only a shared location or an mbarrier has a place", span)
        number = int(value or 0)
        mbarrier = kind == "mbarrier"
        space = Space.GLOBAL if home is None else Space.SHARED
        self.locations[name] = Location(
            name,
            0 if mbarrier else number,
            space,
            home=home,
            count=number if mbarrier else None,
            span=span,
        )

    def _declare_implied(self, threads: list[LitmusThread]) -> None:
        """Public tests leave out locations that start with 0, as herd lets them.

        A name that occurs in one instruction only is more often a slip than a location.
        """
        uses = Counter(
            instruction.location
            for thread in threads
            for instruction in thread.instructions
            if isinstance(instruction, Load | Store | Atomic)
        )
        for name, count in uses.items():
            if name not in self.locations and count > 1:
                self.locations[name] = Location(name, 0, Space.GLOBAL)

    def _homed(self, threads: list[LitmusThread]) -> list[Location]:
        """Shared locations without a place belong to the CTA of the first thread.

        A place that names only a CTA takes the cluster and the device of a thread that runs there.
        """
        result = []
        amd = self.dialect.amd
        for location in self.locations.values():
            home = location.home
            if home is not None:
                if home.cta < 0:
                    home = threads[0].placement.group
                same = [
                    t.placement.group
                    for t in threads
                    if (t.placement.cta, t.placement.gpu) == (home.cta, home.gpu)
                ]
                if same and home.cluster == (0 if amd else 1000 + home.cta):
                    home = same[0]
            result.append(replace(location, home=home))
        return result

    # Program ------------------------------------------------------------------------------

    def _pieces(self, start: int, end: int, separator: str) -> list[tuple[int, int]]:
        """Non-empty stretches between separators, as offsets without surrounding blanks."""
        found, begin = [], start
        while begin <= end:
            stop = self.text.find(separator, begin, end)
            stop = end if stop < 0 else stop
            stripped = self.text[begin:stop]
            left = begin + len(stripped) - len(stripped.lstrip())
            right = left + len(stripped.strip())
            if right > left:
                found.append((left, right))
            begin = stop + 1
        return found

    def _cells(self, start: int, end: int) -> list[tuple[int, int]]:
        cells, begin = [], start
        while True:
            stop = self.text.find("|", begin, end)
            stop = end if stop < 0 else stop
            part = self.text[begin:stop]
            left = begin + len(part) - len(part.lstrip())
            cells.append((left, left + len(part.strip())))
            if stop == end:
                return cells
            begin = stop + 1

    def _program(self, start: int, end: int) -> list[LitmusThread]:
        rows = self._pieces(start, end, ";")
        check_program(self.source, start, len(self._cells(*rows[0])) if rows else 0, len(rows))
        if not rows:
            raise self.fail("the test has no threads", start, end)
        heads = self._cells(*rows[0])
        columns: list[list[LitmusInstruction]] = [[] for _ in heads]
        for begin, stop in rows[1:]:
            cells = self._cells(begin, stop)
            if len(cells) > len(heads):
                raise self.fail(
                    f"this row has {len(cells)} columns, but there are {len(heads)} threads",
                    begin,
                    stop,
                )
            for column, (left, right) in zip(columns, cells, strict=False):
                if right > left:
                    column.append(self._instruction(left, right))
        threads = []
        for number, ((left, right), column) in enumerate(zip(heads, columns, strict=True)):
            threads.append(self._thread(left, right, number, tuple(column)))
        names = [thread.name for thread in threads]
        if len(set(names)) != len(names):
            raise self.fail("two threads have the same name", *rows[0])
        return threads

    def _thread(
        self, left: int, right: int, number: int, instructions: tuple[LitmusInstruction, ...]
    ) -> LitmusThread:
        match = _HEAD.match(self.text[left:right])
        if match is None:
            raise self.fail("expected the name of a thread", left, right)
        name, place = match.groups()
        placement = self._placed(place or "", number, self.source.span(left, right))
        registers = tuple(self.registers.get(name, ()))
        return LitmusThread(name, placement, instructions, registers)

    def _instruction(self, left: int, right: int) -> LitmusInstruction:
        span = self.source.span(left, right)
        try:
            return replace(self._spelled(self.text[left:right]), span=span)
        except InstructionError as error:
            raise LitmusError(str(error), span) from None

    def _spelled(self, text: str) -> LitmusInstruction:
        if self.dialect.machine is not None:
            return read_step(text, self.dialect.machine)
        amd = self.dialect is Dialect.AMDGPU
        return amdgpu.read_amdgpu(text) if amd else read_instruction(text)

    def _placed(self, text: str, number: int, span: Span) -> ThreadPlacement:
        """A place as the dialect names it; `number`: of the thread."""
        if not self.dialect.amd:
            return _placement(text)
        try:
            return amdgpu.read_place(text, number)
        except InstructionError as error:
            raise LitmusError(str(error), span) from None

    # Scope tree and conditions ------------------------------------------------------------

    def _scopes(self, threads: list[LitmusThread], start: int, end: int) -> list[LitmusThread]:
        names = {thread.name: number for number, thread in enumerate(threads)}
        if self.dialect.amd:
            message = f"{self.dialect} tests name places in the heads of the columns"
            raise self.fail(message, start, end)
        counters = {"gpu": -1, "cluster": -1, "cta": -1}
        stack: list[dict[str, int]] = []
        placed: dict[str, ThreadPlacement] = {}
        for match in re.finditer(r"\(|\)|[A-Za-z0-9_.]+", self.text[start:end]):
            word = match.group()
            where = (start + match.start(), start + match.end())
            if word == "(":
                stack.append(dict(stack[-1]) if stack else {})
            elif word == ")":
                if not stack:
                    raise self.fail("unbalanced parenthesis in the scope tree", *where)
                stack.pop()
            elif word in counters and stack:
                counters[word] += 1
                stack[-1][word] = counters[word]
            elif word in ("sys", "system", "grid"):
                continue
            elif word in names and stack:
                levels = stack[-1]
                if "cta" not in levels:
                    raise self.fail(f"thread `{word}` is outside of every cta", *where)
                cluster = levels.get("cluster", 1000 + levels["cta"])
                placed[word] = ThreadPlacement(levels.get("gpu", 0), cluster, levels["cta"])
            else:
                raise self.fail(f"`{word}` is neither a scope nor a thread", *where)
        missing = [name for name in names if name not in placed]
        if missing:
            raise self.fail(f"thread `{missing[0]}` is not in the scope tree", start, end)
        return [replace(thread, placement=placed[thread.name]) for thread in threads]

    def _condition(self, threads: list[LitmusThread], start: int, end: int) -> Condition:
        registers = {thread.name: defined_registers(thread) for thread in threads}
        return ConditionReader(self.source, start, end, registers, self.locations).read()

    def _check_lds(self, threads: list[LitmusThread], homed: list[Location]) -> None:
        """LDS is accessed by its own work-group only."""
        homes = {location.name: location.home for location in homed}
        for thread in threads:
            for instruction in thread.instructions:
                for name in named_locations(instruction):
                    if homes[name] not in (None, thread.placement.group):
                        message = f"`{name}` is in the LDS of another work-group"
                        raise LitmusError(message, instruction.span)
                if isinstance(instruction, CdnaStep):
                    wrong = misplaced(instruction, {n for n in homes if homes[n] is not None})
                    if wrong is not None:
                        raise LitmusError(wrong, instruction.span)

    def _check_clusters(self, threads: list[LitmusThread]) -> None:
        """A CTA is in one cluster, a work-group on one XCD, whichever thread names it."""
        clusters: dict[tuple[int, int], int] = {}
        places = [(t.placement, None) for t in threads]
        homes = [(loc.home, loc.span) for loc in self._homed(threads) if loc.home is not None]
        for place, span in [*places, *homes]:
            known = clusters.setdefault((place.gpu, place.cta), place.cluster)
            if known != place.cluster:
                message = f"cta {place.cta} of gpu {place.gpu} is in two clusters"
                if self.dialect.amd:
                    message = f"wg {place.cta} of agent {place.gpu} is on two xcds"
                raise LitmusError(message, span or self.source.span(0, 3))

    def _unknown(self, name: str) -> str:
        near = nearest(name, self.locations)
        return f"unknown location `{name}`" + (f"; did you mean `{near}`?" if near else "")

    def _check_declared(self, threads: list[LitmusThread]) -> None:
        for thread in threads:
            labels = {i.name for i in thread.instructions if isinstance(i, Label)}
            labels |= {
                i.target
                for i in thread.instructions
                if isinstance(i, CdnaStep) and i.form is StepForm.LABEL
            }
            for instruction in thread.instructions:
                for name in named_locations(instruction):
                    if name not in self.locations:
                        raise LitmusError(self._unknown(name), instruction.span)
                barriers = named_mbarriers(instruction)
                for name in barriers:
                    if not self.locations[name].is_mbarrier:
                        raise LitmusError(f"`{name}` is not an mbarrier", instruction.span)
                for name in named_locations(instruction):
                    if self.locations[name].is_mbarrier and name not in barriers:
                        raise LitmusError(f"`{name}` is an mbarrier, not data", instruction.span)
                target = _jump(instruction)
                if target is not None and target not in labels:
                    raise LitmusError(f"unknown label `{target}`", instruction.span)


def _jump(instruction: LitmusInstruction) -> str | None:
    """The label that an instruction may jump to."""
    if isinstance(instruction, Branch):
        return instruction.target
    if isinstance(instruction, CdnaStep) and instruction.form is StepForm.BRANCH:
        return instruction.target
    return None


def _placement(text: str) -> ThreadPlacement:
    levels = {level: int(number) for level, number in _PLACE.findall(text)}
    cta = levels.get("cta", 0)
    return ThreadPlacement(levels.get("gpu", 0), levels.get("cluster", 1000 + cta), cta)


def named_locations(instruction: LitmusInstruction) -> list[str]:
    """Every location that an instruction names, mbarriers included."""
    names: list[str | None] = []
    if isinstance(instruction, BulkCopy):
        names = [*instruction.destinations, instruction.source, instruction.tensormap]
    for field_name in ("location", "source", "destination"):
        is_register = field_name == "destination" and isinstance(
            instruction, Load | Atomic | MatrixRead | MbarrierWait | Assign | CdnaStep
        )
        if not is_register and isinstance(getattr(instruction, field_name, None), str):
            names.append(getattr(instruction, field_name))
    return [name for name in names if name is not None] + named_mbarriers(instruction)


def named_mbarriers(instruction: LitmusInstruction) -> list[str]:
    """The locations that an instruction uses as mbarriers."""
    if isinstance(instruction, BulkCopy):
        return list(instruction.barriers)
    if isinstance(instruction, AsyncStore):
        return [instruction.barrier]
    if isinstance(
        instruction,
        MbarrierInit
        | MbarrierArrive
        | MbarrierExpect
        | MbarrierWait
        | AsyncCopyArrive
        | TensorCommit,
    ):
        return [instruction.location]
    return []


def defined_registers(thread: LitmusThread) -> list[str]:
    """Registers that a thread starts with or assigns."""
    names = [name for name, _ in thread.registers]
    for instruction in thread.instructions:
        if isinstance(instruction, Load | Atomic | MatrixRead | MbarrierWait | Assign | CdnaStep):
            names += [instruction.destination] if instruction.destination is not None else []
    return list(dict.fromkeys(names))
