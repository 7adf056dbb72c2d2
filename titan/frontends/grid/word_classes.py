"""Numbers of a word that the code of a CTA does not distinguish.

A CTA is run with each number that a word may have where it asks for it. In a grid of many CTAs
these are many, and nearly all do the same: the barrier of a cooperative launch needs one bit of
what it has read, others compare it with the number of CTAs. So numbers of one class are tried once.

Two numbers are of one class where they agree in all that is ever made of them: the bits that any
instruction needs, and the results of comparisons with a number that is fixed for the CTA, that is,
made once, outside of loops, from constants and special registers alone. Which bits are needed is
asked of the whole code, whatever the order of its instructions: moves, `and`, `or`, `xor` and `not`
need of their operands what is needed of their results, a comparison of signs needs the highest bit,
and everything else needs all. So a run with another number of the class differs in bits that
nothing needs, and does the same.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field

from titan.frontends.grid.asked_words import Item
from titan.isa.simt.arithmetic import function_of
from titan.isa.simt.operations import COMPARISONS, PURE, DecodedStep, Kind, Op, PresetKind
from titan.isa.simt.outcome import PreparedLaunch
from titan.isa.simt.rounds import loops_of
from titan.isa.simt.special import special_value

_ALL = (1 << 64) - 1
_BY_BITS = (Op.MOV, Op.AND, Op.OR, Op.XOR, Op.NOT)
_SIGNS = {"lt": 0, "ge": 0, "le": _ALL, "gt": _ALL}  # compared with 0, or with -1
_DEPTH_MAX = 16  # of what a fixed number is made from


@dataclass(slots=True)
class NumberClasses:
    """Those of the code of a launch."""

    made: PreparedLaunch
    _makers: dict[int, list[int]] = field(default_factory=dict)
    _uses: dict[int, list[int]] = field(default_factory=dict)
    _constants: dict[int, int] = field(default_factory=dict)
    _specials: dict[int, str] = field(default_factory=dict)
    _preset: set[int] = field(default_factory=set)
    _looped: frozenset[int] = frozenset()
    _needed: dict[int, int] = field(default_factory=dict)
    _tests: dict[tuple[int, int, int], tuple[int, tuple[tuple[int, int, int], ...]] | None] = field(
        default_factory=dict
    )
    _calls: bool = False

    def __post_init__(self) -> None:
        code = self.made.code
        for at, step in enumerate(code.steps):
            for register in step.out:
                self._makers.setdefault(register, []).append(at)
            for register in {*step.args, step.guard}:
                self._uses.setdefault(register, []).append(at)
        for one in code.presets:
            self._preset.add(one.register)
            if one.kind is PresetKind.CONSTANT:
                self._constants[one.register] = one.value
            elif one.kind is PresetKind.SPECIAL:
                self._specials[one.register] = one.name
        self._looped = frozenset().union(*loops_of(code).values())
        self._calls = any(step.op is Op.CALL for step in code.steps)
        self._find_needed()

    def of(self, cta: int, item: Item, number: int) -> Hashable:
        """The class of a number that a CTA reads from a word."""
        key = cta, item.warp, item.instruction
        if key not in self._tests:
            self._tests[key] = self._tests_of(cta, item)
        found = self._tests[key]
        if found is None:
            return number
        needed, tests = found
        steps = self.made.code.steps
        results = []
        for at, place, other in tests:
            operands = (number, other) if place == 0 else (other, number)
            results.append(function_of(steps[at])(*operands))
        return number & needed, tuple(results)

    def _tests_of(
        self, cta: int, item: Item
    ) -> tuple[int, tuple[tuple[int, int, int], ...]] | None:
        """The bits that are needed of what an item reads, but for comparisons with fixed numbers,
        and these: the instruction, the place of the number, and the number that it is compared
        with. None where that is not followed."""
        step = self.made.code.steps[item.instruction]
        if self._calls or item.members or len(step.out) != 1 or step.bits != 8 * item.size:
            return None
        (register,) = step.out
        needed, tests = 0, []
        for at in self._uses.get(register, ()):
            use = self.made.code.steps[at]
            place = use.args.index(register) if register in use.args else -1
            other = None
            if (
                use.op is Op.SETP
                and use.guard != register
                and len(use.args) == 2
                and use.args.count(register) == 1
                and use.kind not in (Kind.FLOAT, Kind.BFLOAT)
                and use.bits == step.bits
            ):
                other = self._fixed(use.args[1 - place], cta, item.warp)
            if other is None:
                needed |= self._needed_by(use, register)
            else:
                tests.append((at, place, other & (1 << use.bits) - 1))
        if needed >> step.bits:
            needed = _ALL  # copies of the sign, where the register is wider
        return needed, tuple(tests)

    # ---------------------------------------------------------------------- bits that are needed

    def _find_needed(self) -> None:
        """The bits of each register that some instruction needs."""
        work = list(self._uses)
        while work:
            register = work.pop()
            found = 0
            for at in self._uses.get(register, ()):
                found |= self._needed_by(self.made.code.steps[at], register)
            if found != self._needed.get(register, 0):
                self._needed[register] = found
                for at in self._makers.get(register, ()):
                    work += self.made.code.steps[at].args

    def _needed_by(self, step: DecodedStep, register: int) -> int:
        """The bits of a register that an instruction needs."""
        if register == step.guard:
            return _ALL
        if step.op is Op.SETP:
            return self._of_sign(step, register)
        if step.op not in _BY_BITS or len(step.out) != 1:
            return _ALL
        wanted = self._needed.get(step.out[0], 0)
        for other in step.args:
            if other != register and other in self._constants and other not in self._makers:
                mask = self._constants[other]
                if step.op is Op.AND:
                    wanted &= mask
                elif step.op is Op.OR:
                    wanted &= ~mask
        return wanted

    def _of_sign(self, step: DecodedStep, register: int) -> int:
        """The bits that a comparison needs: the highest, where it asks for the sign alone."""
        if step.kind is not Kind.SIGNED or len(step.args) != 2 or step.args[0] != register:
            return _ALL
        other = step.args[1]
        if other == register or other not in self._constants or other in self._makers:
            return _ALL
        mask = (1 << step.bits) - 1
        word = COMPARISONS[step.flags[0]]
        same = word in _SIGNS and self._constants[other] & mask == _SIGNS[word] & mask
        return 1 << step.bits - 1 if same else _ALL

    # ------------------------------------------------------------------------------ fixed numbers

    def _fixed(self, register: int, cta: int, warp: int, depth: int = 0) -> int | None:
        """The one number that a register of a warp ever has, where that is known."""
        makers = self._makers.get(register, [])
        if register in self._preset:
            return None if makers else self._at_start(register, cta, warp)
        if len(makers) != 1 or makers[0] in self._looped or depth > _DEPTH_MAX:
            return None
        step = self.made.code.steps[makers[0]]
        integers = step.kind not in (Kind.FLOAT, Kind.BFLOAT)
        if step.op not in PURE or step.guard >= 0 or len(step.out) != 1 or not integers:
            return None
        operands = list(self._fixed_all(step.args, cta, warp, depth + 1))
        if None in operands or step.op is Op.SETP:
            return None
        try:
            return function_of(step)(*(one for one in operands if one is not None))
        except KeyError:
            return None  # no arithmetic

    def _fixed_all(
        self, registers: tuple[int, ...], cta: int, warp: int, depth: int
    ) -> Iterator[int | None]:
        for register in registers:
            yield self._fixed(register, cta, warp, depth)

    def _at_start(self, register: int, cta: int, warp: int) -> int | None:
        if register in self._constants:
            return self._constants[register]
        if register not in self._specials:
            return None
        launch, layout = self.made.launch, self.made.layout
        value = special_value(launch, layout, self._specials[register], cta, warp)
        return value if isinstance(value, int) else None
