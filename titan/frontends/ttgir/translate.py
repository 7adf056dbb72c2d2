"""From a function of TTGIR to the roles of a sync program.

The function itself is the role `default`; every partition of a `ttg.warp_specialize` is a role of
its own, which starts and ends with it at a named barrier. Loops stay loops; what a loop carries
becomes a counter of the role, or a multiple of the loop variable where it grows steadily. All
operations that are not known are reported at once, each with its place.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

from titan.foundation.diagnostics.model import diagnostic
from titan.foundation.diagnostics.wording import quoted, suggestion
from titan.frontends.ttgir import integers
from titan.frontends.ttgir.blocks import (
    IGNORED,
    QUIET,
    REFUSED,
    at_once,
    captured,
    gives_integer,
    loads_number,
    lost,
    placed,
    synchronises,
    yielded,
)
from titan.frontends.ttgir.drafts import MAIN, FunctionDraft, Names, RoleDraft
from titan.frontends.ttgir.effects import HANDLERS, Made, Operands, Untranslatable, laid_on
from titan.frontends.ttgir.integers import UnknownInteger
from titan.frontends.ttgir.loops import (
    LoopDraft,
    Probed,
    as_often,
    decided_by,
    flattened,
    repeated,
    steady_growth,
    while_fault,
    while_form,
    while_trips,
)
from titan.frontends.ttgir.memory import ALLOCATIONS, KNOWN, Allocations, makes_view, view_of
from titan.frontends.ttgir.model import Block, TtgirFunction, TtgirModule, TtgirOperation
from titan.frontends.ttgir.places import DraftPlace, works_in_pairs
from titan.frontends.ttgir.sums import sums_of
from titan.frontends.ttgir.tensor_maps import makes_maps, maps_without_acquire, of_the_launch
from titan.frontends.ttgir.values import (
    Arithmetic,
    MemoryView,
    ThreadNumber,
    Unknown,
    Value,
    is_integer,
    is_scalar,
    why_unknown,
)
from titan.frontends.ttgir.waves import MEETINGS, PIPELINED, THREAD_NUMBERS, Waves
from titan.sync import program as ir
from titan.sync.expression import ONE, ZERO, Binary, Constant, Expression, Name, Not, binary

FAULTS_MAX = 20
_CONTROL = ("ttg.warp_specialize", "scf.for", "scf.if", "scf.while", "scf.execute_region")


def draft(
    module: TtgirModule, function: TtgirFunction, place: DraftPlace, either_way: bool = False
) -> FunctionDraft:
    """The function as roles of some threads; `faults` says what could not be translated.

    `either_way`: a branch outside of loops that arguments decide may go either way.
    """
    unbounded: set[str] = set()
    while True:
        translator = _Translator(module, function, place, unbounded, either_way)
        translator.run()
        if not translator.falls:
            return translator.draft
        # Somebody relied on a bound that does not hold: once more without it.
        unbounded |= translator.falls


class _Translator:
    def __init__(
        self, module: TtgirModule, function: TtgirFunction, place: DraftPlace, unbounded: set[str],
        either_way: bool,
    ) -> None:  # fmt: skip
        self.function, self.place = function, place
        self.layouts, self.pairs = module.layouts, works_in_pairs(module)
        self.unbounded, self.either_way = unbounded, either_way
        self.falls: set[str] = set()
        self.draft = FunctionDraft(place)
        self.waves = Waves.of(module, place)
        self.arithmetic = Arithmetic(self.draft.arguments, {})
        self.role = RoleDraft(MAIN, self.waves.threads)
        self.draft.roles.append(self.role)
        self.around: list[Expression | LoopDraft] = []  # conditions and loops of the main role
        self.loops = 0
        self._fresh = Names().fresh
        self.decided: dict[str, Name] = {}  # by data, of which every value is possible
        self.allocations = Allocations.of(function.body, self.draft.roots, self._fresh)
        self.makes_maps = makes_maps(function.body)
        self.quiet = False  # an attempt: faults are reported when the real one is made

    def run(self) -> None:
        """Translate the body; values are known by their names in `environment`."""
        environment: dict[str, Value] = {}
        for name, type_text in self.function.arguments:
            other = of_the_launch(name, type_text, self.makes_maps)
            environment[name] = self._argument(name) if is_scalar(type_text) else other
        self.draft.faults += maps_without_acquire(self.function.body)
        self.role.body = self._block(self.function.body, environment)

    def _argument(self, name: str) -> Name:
        return self._size(self._fresh(name))

    def _size(self, plain: str) -> Name:
        self.draft.arguments.add(plain)
        self.arithmetic.minimums[plain] = 0
        return Name(plain)

    def _fault(self, operation: TtgirOperation, text: str, helps: tuple[str, ...] = ()) -> None:
        if not self.quiet and len(self.draft.faults) < FAULTS_MAX:
            self.draft.faults.append(diagnostic("TTN010", text, operation.span, helps=helps))

    # ------------------------------------------------------------------------- operations

    def _block(self, block: Block, environment: dict[str, Value]) -> Made:
        made: Made = []
        for operation in block.operations:
            try:
                found = self._operation(operation, environment)
            except UnknownInteger as reason:
                self._fault(operation, f"a number is unknown: {reason}")
                continue
            for one in found:
                made.append(placed(one, operation, operation.source) if one.span is None else one)
        return made

    def _operation(self, operation: TtgirOperation, environment: dict[str, Value]) -> Made:
        name = operation.name
        values = [environment.get(operand, Unknown()) for operand in operation.operands]
        match name:
            case "scf.for":
                return self._for(operation, environment)
            case "scf.while":
                return self._while(operation, environment)
            case "scf.if":
                return self._if(operation, values, environment)
            case "ttg.warp_specialize":
                return self._specialise(operation, values, environment)
            case "scf.execute_region":
                return self._inline(operation, environment)
            case "tt.get_program_id" | "tt.get_num_programs":
                axis = operation.header.split()[0] if operation.header else "x"
                what = name.removeprefix("tt.get_")
                environment[operation.results[0]] = self._size(f"{what}_{axis}")
                return []
        if name in ALLOCATIONS:
            return self._allocate(operation, values, environment)
        if makes_view(name, values):
            self._view(operation, values, environment)
        elif name in THREAD_NUMBERS:
            environment[operation.results[0]] = self.waves.number(name)
        elif name in MEETINGS:
            return self._meeting(operation, values)
        elif name in HANDLERS:
            return self._effects(operation, values, environment)
        elif name.startswith("arith.") and gives_integer(operation):
            environment[operation.results[0]] = self.arithmetic.evaluate(operation, values)
        elif name == "tt.elementwise_inline_asm" and "true" not in operation.attributes.get(
            "pure", ""
        ):
            self._fault(operation, "assembly with side effects is not supported")
        elif loads_number(operation) and self._once():
            number = environment[operation.results[0]] = self._argument(operation.results[0])
            self.draft.loaded[number.name] = operation.span
        elif name in REFUSED:
            self._fault(operation, f"{quoted(name)} is {REFUSED[name]}")
        elif not name.startswith(QUIET) and name not in IGNORED:
            self._unknown(operation)
        return []

    def _once(self) -> bool:
        """Whether an operation is executed once, by the function itself, in its only CTA."""
        return self.role.name == MAIN and not self.loops and self.place.ctas == 1

    def _unknown(self, operation: TtgirOperation) -> None:
        helps = suggestion(operation.name, [*KNOWN, *MEETINGS, *_CONTROL])
        self._fault(operation, f"the operation {quoted(operation.name)} is not known", helps)

    def _operands(self, operation: TtgirOperation, values: list[Value]) -> Operands:
        of = self.role.threads, self.place, self.layouts, self.pairs, self.makes_maps
        return Operands(operation, values, *of)

    def _meeting(self, operation: TtgirOperation, values: list[Value]) -> Made:
        try:
            return self.waves.meeting(operation, values)
        except Untranslatable as reason:
            self._fault(operation, f"{quoted(operation.name)} is not supported: {reason}")
            return []

    def _inline(self, operation: TtgirOperation, environment: dict[str, Value]) -> Made:
        """A region that is executed once where it stands."""
        made: Made = []
        for region in operation.regions[:1]:
            inner = dict(environment)
            made = self._block(region, inner)
            environment |= zip(operation.results, yielded(region, inner), strict=False)
        return self.waves.stage(operation, made)

    def _effects(
        self, operation: TtgirOperation, values: list[Value], environment: dict[str, Value]
    ) -> Made:
        operands = self._operands(operation, values)
        try:
            operands.check()
            made = HANDLERS[operation.name](operands)
        except (Untranslatable, ValueError) as reason:
            self._fault(operation, f"{quoted(operation.name)} is not supported: {reason}")
            return []
        self.draft.sums |= sums_of(operands, self.around[-1:], self.role.begun, self.quiet)
        if operation.name == "ttng.warp_group_dot_wait":
            for result, value in zip(operation.results, values, strict=False):
                environment[result] = value
        return self.waves.before(made)

    def _allocate(
        self, operation: TtgirOperation, values: list[Value], environment: dict[str, Value]
    ) -> Made:
        try:
            operands = self._operands(operation, values)
            operands.check()
            view = self.allocations.allocate(operation)
            view.root.bytes_here, view.root.led = operands.bytes_here(view), operands.leads(view)
        except Untranslatable as reason:
            self._fault(operation, str(reason))
            return []
        environment[operation.results[0]] = view
        made = laid_on(operands, self.allocations.ended(operation))
        if operation.operands:
            made.append(ir.Access(operands.effects(view, True, ir.Proxy.GENERIC)))
        return self.waves.before(made)

    def _view(
        self, operation: TtgirOperation, values: list[Value], environment: dict[str, Value]
    ) -> None:
        try:
            self._operands(operation, values).check()
            environment[operation.results[0]] = view_of(operation, values)
        except Untranslatable as reason:
            self._fault(operation, str(reason))

    # ----------------------------------------------------------------------- control flow

    def _for(self, operation: TtgirOperation, environment: dict[str, Value]) -> Made:
        body = operation.regions[0] if operation.regions else Block()
        operands = list(operation.operands)
        if len(operands) < 4:
            self._fault(operation, "a loop has a variable, a start, an end and a step")
            return []
        variable, names = operands[0], operands[4::2]
        starts = [environment.get(x, Unknown()) for x in operands[5::2]]
        if len(names) != len(starts):
            self._fault(operation, "a loop carries a value that has no first one")
            return []
        bounds = [environment.get(x, Unknown()) for x in operands[1:4]]
        numbers = [x for x in bounds if is_integer(x)]
        if len(numbers) < 3 or not isinstance(numbers[2], Constant):
            reason = next((x.reason for x in bounds if isinstance(x, Unknown)), "the step is open")
            if synchronises(body):
                self._fault(operation, f"the bounds of a loop are not known: {reason}")
            for result in operation.results:
                environment[result] = Unknown("it comes from a loop whose bounds are not known")
            return []
        low, high, step = numbers[0], numbers[1], numbers[2].value
        if step <= 0:
            self._fault(operation, "the step of a loop is not positive")
            return []
        trips = integers.ceiling_divide(integers.subtract(high, low), step)
        counter = self._counted(variable)
        number = integers.add(low, integers.multiply(Constant(step), Name(counter)))
        loop = LoopDraft(operation, body, counter, trips, number, variable)
        probed = self._probed(loop, names, starts, environment)
        pair = self._pair(loop, dict(zip(names, starts, strict=True)), probed)
        if pair is not None:
            return self._carried(pair[1], names, starts, environment, {pair[0]: 0})
        steady = {} if self.loops else steady_growth(probed)
        if PIPELINED not in operation.attributes:
            return self._carried(loop, names, starts, environment, steady)
        if any(one.name in MEETINGS for one in body.operations):
            self._fault(operation, "barriers between the stages of a warp pipeline are not read")
            return []
        made = self.waves.enter_stages(operation.span)
        made += self._carried(loop, names, starts, environment, steady)
        return made + self.waves.leave_stages(operation.span)

    def _counted(self, name: str) -> str:
        counter = self._fresh(f"{name}_trip")
        self.arithmetic.minimums[counter] = 0
        return counter

    def _pair(
        self, loop: LoopDraft, starts: dict[str, Value], probed: Probed
    ) -> tuple[str, LoopDraft] | None:
        """The two loops that a flattened one is, and the name of what counts the inner one."""
        fixed = integers.holds_only(frozenset(self.draft.arguments))
        found = flattened(loop.trips, starts, probed, fixed, self.arithmetic.least)
        if found is None:
            return None
        inner = self._counted(found.name)
        return found.name, replace(loop, trips=found.outer, inner=(inner, found.inner))

    def _while(self, operation: TtgirOperation, environment: dict[str, Value]) -> Made:
        for result in operation.results:
            environment[result] = Unknown("it comes from a loop that is not counted")
        if not any(synchronises(region) for region in operation.regions):
            return []
        form = while_form(operation)
        if form is None or synchronises(operation.regions[0]):
            self._fault(operation, while_fault(operation, synchronises))
            return []
        if self.loops:
            self._fault(operation, "a `scf.while` inside of a loop is not supported")
            return []
        counter = self._counted("while")
        loop = LoopDraft(operation, operation.regions[1], counter, ZERO, ZERO, "")
        names, starts = list(form.names), [environment.get(n, Unknown()) for n in form.starts]
        probed = self._probed(loop, names, starts, environment)
        if len(probed) != len(names):
            self._fault(operation, "a loop hands on another number of values than it carries")
            return []
        growth = steady_growth(probed)
        inside = {
            **environment,
            **dict(zip(form.asked, (probed[n][0] for n in names), strict=True)),
        }
        self._block(operation.regions[0], inside)
        condition = inside.get(form.condition, Unknown())
        trips = while_trips(condition, dict(zip(names, starts, strict=True)), probed, growth)
        if trips is None:
            if self.role.name != MAIN:
                self._fault(operation, "the trips of a loop in a partition depend on data")
                return []
            if self.place.ctas > 1:
                self._fault(operation, "the trips of a loop in a cluster depend on data")
                return []
            trips = self._argument("trips")  # every number of them
        return self._carried(replace(loop, trips=trips), names, starts, environment, growth)

    def _probed(
        self,
        loop: LoopDraft,
        names: list[str],
        starts: list[Value],
        environment: dict[str, Value],
    ) -> Probed:
        """Each carried value before a trip and after it; numbers have names of their own."""
        probes: dict[str, Value] = {}
        for name, start in zip(names, starts, strict=True):
            if is_integer(start):
                plain = self._fresh(name)
                self.arithmetic.minimums[plain] = self.arithmetic.least(start) or 0
                probes[name] = Name(plain)
            else:
                probes[name] = start
        before = self.quiet, len(self.draft.roots)
        waves, self.waves = self.waves, deepcopy(self.waves)
        self.quiet = True
        inner = {**environment, **probes, loop.variable: loop.number}
        self.loops += 1
        self._block(loop.body, inner)
        self.loops -= 1
        self.quiet, self.waves = before[0], waves
        del self.draft.roots[before[1] :]
        ends = yielded(loop.body, inner)
        return {name: (probes[name], end) for name, end in zip(names, ends, strict=False)}

    def _carried(
        self,
        loop: LoopDraft,
        names: list[str],
        starts: list[Value],
        environment: dict[str, Value],
        steady: dict[str, int],
    ) -> Made:
        """The loop with its counters: set before it, and at the end of every trip."""
        made: Made = []
        inner = {**environment, loop.variable: loop.number}
        if loop.inner is not None:
            inner[loop.variable] = Unknown("it is the variable of two loops that were flattened")
        counters: dict[str, str] = {}
        after: dict[str, Value] = {}
        for name, start in zip(names, starts, strict=True):
            stage = start.stage if isinstance(start, MemoryView) else start
            if name in steady and loop.inner is not None:
                inner[name], after[name] = Name(loop.inner[0]), ZERO
            elif name in steady and is_integer(start):
                growth = Constant(steady[name])
                inner[name] = integers.add(start, integers.multiply(growth, Name(loop.counter)))
                certain = (self.arithmetic.least(loop.trips) or -1) >= 0
                passed = loop.trips if certain else binary("max", loop.trips, ZERO)
                after[name] = integers.add(start, integers.multiply(growth, passed))
            elif isinstance(start, ThreadNumber):
                inner[name] = after[name] = Unknown("it differs by thread")
            elif stage is None or not is_integer(stage):
                inner[name] = after[name] = start
            else:
                plain = counters[name] = self._counter(name, stage)
                made.append(ir.Assign(plain, stage))
                value: Value = Name(plain)
                if isinstance(start, MemoryView):
                    value = replace(start, stage=Name(plain))
                inner[name] = after[name] = value
        self.loops += 1
        self.waves.enter_loop()
        self.around.append(loop)
        body = self._block(loop.body, inner)
        self.around.pop()
        self.loops -= 1
        body += self._assigned(loop.operation, names, counters, yielded(loop.body, inner), inner)
        made.append(repeated(loop, body))
        for result, name in zip(loop.operation.results, names, strict=False):
            environment[result] = after[name]
        return made

    def _counter(self, name: str, first: Expression) -> str:
        """A counter of the role. What it is never below has to be proved for divisions."""
        plain = self._fresh(name)
        self.role.begin(plain, first)
        low = self.arithmetic.least(first)
        if low is not None and plain not in self.unbounded:
            self.arithmetic.minimums[plain] = low
        return plain

    def _assigned(
        self,
        operation: TtgirOperation,
        names: list[str],
        counters: dict[str, str],
        values: list[Value],
        inner: dict[str, Value],
    ) -> Made:
        """All counters take their new values at once."""
        new: list[tuple[str, Expression]] = []
        for name, value in zip(names, values, strict=False):
            before = inner[name]
            if isinstance(before, MemoryView) and not before.like(value):
                self._fault(operation, "a loop carries views of different allocations")
                continue
            plain = counters.get(name)
            if plain is None:
                continue
            stage = value.stage if isinstance(value, MemoryView) else value
            new.append((plain, stage if is_integer(stage) else Name(lost(value))))
            self._check_bound(plain, new[-1][1])
        return at_once(new, self._fresh, self.role.variables)

    def _check_bound(self, counter: str, value: Expression) -> None:
        """Whether a counter that is set to a value stays at or above its first one."""
        bound = self.arithmetic.minimums.get(counter)
        low = self.arithmetic.least(value)
        if bound is not None and (low is None or low < bound):
            self.falls.add(counter)

    def _if(
        self, operation: TtgirOperation, values: list[Value], environment: dict[str, Value]
    ) -> Made:
        condition = values[0] if values else Unknown()
        then = operation.regions[0] if operation.regions else Block()
        otherwise = operation.regions[1] if len(operation.regions) > 1 else Block()
        if synchronises(then) or synchronises(otherwise):
            condition = self._either(operation, condition)
        if not is_integer(condition):
            if synchronises(then) or synchronises(otherwise):
                self._fault(operation, f"a condition is not known: {why_unknown(condition)}")
            for result in operation.results:
                environment[result] = Unknown("it comes from a branch on what is not known")
            return []
        decided: Expression = condition
        made: list[Made] = []
        results: list[list[Value]] = []
        for block, way in ((then, decided), (otherwise, integers.select(decided, ZERO, ONE))):
            inner = dict(environment)
            self.around.append(way)
            made.append([] if way == ZERO else self._block(block, inner))
            self.around.pop()
            results.append(yielded(block, inner))
        if isinstance(decided, Constant):
            chosen = 0 if decided.value else 1
            environment |= zip(operation.results, results[chosen], strict=False)
            return made[chosen]
        merged = self._merged(operation, decided, results, made, environment)
        if merged is not None:
            return merged
        return [ir.Branch(decided, tuple(made[0]), tuple(made[1]))] if any(made) else []

    def _either(self, operation: TtgirOperation, condition: Value) -> Value:
        """A size in the place of a scalar that data decide: 0 or not, the same in all threads.

        In a loop it may be another one in each trip; two CTAs may have two.
        """
        opened = isinstance(condition, Binary | Name | Not) and self.either_way
        opened = opened or isinstance(condition, Unknown)
        if not opened or not self._once() or not operation.operands:
            return condition
        name = operation.operands[0]
        if name not in self.decided:
            self.decided[name] = self._argument(f"{name}_holds")
            self.draft.decided[self.decided[name].name] = operation.span
        return Binary("!=", self.decided[name], ZERO)

    def _merged(
        self,
        operation: TtgirOperation,
        condition: Expression,
        results: list[list[Value]],
        made: list[Made],
        environment: dict[str, Value],
    ) -> Made | None:
        """Gives the results of a branch their values; counters where the arms do something."""
        new: tuple[list[tuple[str, Expression]], ...] = ([], [])
        for name, left, right in zip(operation.results, *results, strict=False):
            if isinstance(left, MemoryView) and isinstance(right, MemoryView) and left.like(right):
                if left.stage is None or right.stage is None:
                    environment[name] = left
                    continue
                stages = left.stage, right.stage
            elif is_integer(left) and is_integer(right):
                stages = left, right
            else:
                environment[name] = left if left == right else Unknown("the arms differ")
                continue
            if not any(made) or stages[0] == stages[1]:
                value: Value = integers.select(condition, *stages)
            else:
                plain = self._counter(name, ZERO)
                value = Name(plain)
                for side in (0, 1):
                    new[side].append((plain, stages[side]))
                    self._check_bound(plain, stages[side])
            both = isinstance(left, MemoryView) and is_integer(value)
            environment[name] = replace(left, stage=value) if both else value
        if not any(new):
            return None
        arms = [
            (*made[side], *at_once(new[side], self._fresh, self.role.variables)) for side in (0, 1)
        ]
        return [ir.Branch(condition, *arms)]

    # -------------------------------------------------------------------------- partitions

    def _specialise(
        self, operation: TtgirOperation, values: list[Value], environment: dict[str, Value]
    ) -> Made:
        if self.role.name != MAIN:
            self._fault(operation, "ttg.warp_specialize inside of a partition is not supported")
            return []
        partitions = [block for block in operation.regions if block.label != "default"]
        first = next((block for block in operation.regions if block.label == "default"), Block())
        if self.quiet:  # an attempt: what the partitions do is of no concern
            inner = dict(environment)
            made = self._block(first, inner)
            environment |= zip(operation.results, yielded(first, inner), strict=False)
            return made
        counted = {loop.counter for loop in self.around if isinstance(loop, LoopDraft)}
        shared = self.draft.arguments | counted
        if not decided_by(self.around, shared):
            text = "ttg.warp_specialize under a condition on a counter is not supported"
            self._fault(operation, text)
            return []
        number = len(self.draft.meetings) // 2 + 1
        start, end = self.place.named(f"start {number}"), self.place.named(f"end {number}")
        self.draft.meetings += [start, end]
        threads = {block.label: self.waves.threads_of(block) for block in partitions}
        everyone = Constant(self.waves.threads + sum(threads.values()))

        def meet(name: str) -> ir.Operation:
            return ir.BarrierSync(ir.Reference(name), everyone, span=operation.span)

        for block in partitions:
            name = f"partition_{len(self.draft.roles)}"
            role = RoleDraft(name, threads[block.label])
            self.draft.roles.append(role)
            inner = {
                argument: captured(value, shared)
                for (argument, _), value in zip(block.arguments, values, strict=False)
            }
            outer, self.role = self.role, role
            body = [meet(start), *self._block(block, inner), meet(end)]
            self.role = outer
            role.body = as_often(self.around, body)
        inner = dict(environment)
        made = [meet(start), *self._block(first, inner), meet(end)]
        environment |= zip(operation.results, yielded(first, inner), strict=False)
        return made
