"""A sync program as a kernel file that a person can read and the ordinary reader reads back.

Every statement has the line of the code behind it as a comment. What the kernel language cannot say
is refused (`NotWritableError`); nothing is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from titan.foundation.errors import Refusal
from titan.language.kernel.sync_verbs import FENCES
from titan.sync import program as ir
from titan.sync.expression import ONE, ZERO, Constant, Expression, to_text

WIDTH = 84  # of a statement without its indent
_FENCES = {kind: word for word, kind in FENCES.items()}
_UNITS = {1: "threads", 32: "warps", 64: "warps", 128: "warpgroups"}  # 64: waves of AMD GPUs
_ONE_PATH = (ir.Space.TENSOR, ir.Space.REGISTER)


class NotWritableError(Refusal):
    """The kernel language has no words for something in the program; the message says for what."""


@dataclass(frozen=True, slots=True)
class Heading:
    """What stands at the top: name, target and where it comes from; `notes` are comments."""

    kernel: str
    target: str
    source: str
    notes: tuple[str, ...] = ()


def kernel_text(
    program: ir.SyncProgram,
    heading: Heading,
    addresses: Mapping[str, str],
    line_of: Callable[[object], str],
) -> str:
    """The kernel file. `addresses`: where arrays begin; `line_of` words the place of a span."""
    return "\n".join(_Writer(program, heading, addresses, line_of).lines()) + "\n"


class _Writer:
    def __init__(
        self,
        program: ir.SyncProgram,
        heading: Heading,
        addresses: Mapping[str, str],
        line_of: Callable[[object], str],
    ) -> None:
        self.program = program
        self.heading = heading
        self.addresses = addresses
        self.line_of = line_of
        self.ctas = max((role.cta for role in program.roles), default=0) + 1
        self.buffers = {item.name: item for item in program.buffers}
        self.stages = {item.name: item.stages for item in program.barriers}
        self.owner = {item.name: item.cta for item in program.barriers}
        self.owner |= {item.name: item.cta for item in program.buffers}
        operations = [item for role in program.roles for item in ir.walk(role.body)]
        self.counts = {
            item.barrier.name: item.count.value
            for item in operations
            if isinstance(item, ir.Init) and isinstance(item.count, Constant)
        }

    def lines(self) -> Iterator[str]:
        """The whole file, line by line."""
        yield "titan: 1"
        yield from (f"# {note}" for note in self.heading.notes)
        yield f"kernel: {self.heading.kernel}"
        yield f"target: {self.heading.target}"
        yield f"source: {quoted(self.heading.source)}"
        if self.ctas > 1:
            yield f"ctas: {self.ctas}"
        sizes = [
            f"{item.name}: {{any: true, minimum: {item.minimum}}}"
            if item.value is None
            else f"{item.name}: {item.value}"
            for item in self.program.parameters
        ]
        if sizes:
            yield f"sizes: {{{', '.join(sizes)}}}"
        yield from self._declarations()
        yield from self._policies()
        yield "program:"
        for role in self.program.roles:
            yield f"  {role.name}:"
            yield from self._block(role.body, 4)

    # ------------------------------------------------------------------------ declarations

    def _declarations(self) -> Iterator[str]:
        sections: list[tuple[str, list[str]]] = [
            ("buffers", [self._buffer(item) for item in self.program.buffers]),
            ("barriers", [self._barrier(item) for item in self.program.barriers]),
            ("named_barriers", [_named_barrier(item) for item in self.program.named_barriers]),
            ("queues", [_queue(item) for item in self.program.queues]),
            ("pools", [self._pool(item) for item in self.program.pools]),
            ("roles", [self._role(item) for item in self.program.roles]),
        ]
        for name, items in sections:
            if items:
                yield f"{name}:"
                yield from (f"  {item}" for item in items)

    def _cta(self, cta: int) -> list[str]:
        return [f"cta: {cta}"] if self.ctas > 1 else []

    def _buffer(self, item: ir.Buffer) -> str:
        parts = [f"space: {item.space}"]
        parts += [f"stages: {item.stages}"] if item.stages > 1 else []
        parts += [f"parts: {item.parts}"] if item.parts > 1 else []
        if item.space is not ir.Space.GLOBAL:
            parts += self._cta(item.cta)
        return self._declared(item.name, parts)

    def _barrier(self, item: ir.Barrier) -> str:
        parts = [f"stages: {item.stages}"] if item.stages > 1 else []
        parts.append(f"count: {self.counts.get(item.name) or item.count or 1}")
        parts += [] if item.initialised else ["initialised: false"]
        return self._declared(item.name, [*parts, *self._cta(item.cta)])

    def _pool(self, item: ir.Pool) -> str:
        cta = int(item.name.rpartition("_")[2]) if self.ctas > 1 else 0
        parts = [f"available: {item.available}", *self._cta(cta)]
        self.owner[item.name] = cta
        return self._declared(item.name, parts)

    def _declared(self, name: str, parts: Sequence[str]) -> str:
        text = f"{name}: {{{', '.join(parts)}}}"
        where = self.addresses.get(name, "")
        return f"{text}  # {where}" if where else text

    def _role(self, item: ir.Role) -> str:
        unit = _UNITS.get(item.threads)
        if unit is None:
            raise NotWritableError(f"agents of {item.threads} threads")
        parts = [f"{unit}: {item.agents}", *self._cta(item.cta)]
        return f"{item.name}: {{{', '.join(parts)}}}"

    def _policies(self) -> Iterator[str]:
        policies = self.program.policies
        yield "policies:"
        yield f"  fence_rule: {policies.fence_rule}"
        yield f"  war_fence: {str(policies.war_fence).lower()}"
        yield f"  barrier_init: {policies.barrier_init}"
        yield f"  exit_in_flight: {policies.exit_in_flight}"
        yield f"  unobserved_phase: {policies.unobserved_phase}"
        if any(queue.pipelined and not queue.grouped for queue in self.program.queues):
            yield f"  tensor_pipe: {policies.tensor_pipe}"

    # -------------------------------------------------------------------------- statements

    def _block(self, block: ir.Block, indent: int) -> Iterator[str]:
        before = " " * indent
        if not block:
            yield f"{before}- finalize"
        for operation in block:
            if isinstance(operation, ir.Loop):
                start, stop = to_text(operation.start), to_text(operation.stop)
                yield f"{before}- for: {operation.variable} in {start}..{stop}"
                yield f"{before}  do:"
                yield from self._block(operation.body, indent + 4)
                continue
            statement = self._statement(operation)
            place = self.line_of(operation.span)
            for number, text in enumerate(statement):
                comment = f"  # {place}" if place and number == 0 else ""
                yield f"{before}{'- ' if number == 0 else '  '}{text}{comment}"

    def _statement(self, operation: ir.Operation) -> list[str]:
        """The lines of a statement: its verb, then its options."""
        match operation:
            case ir.Access():
                return self._access(operation)
            case ir.Asynchronous():
                return self._asynchronous(operation)
            case ir.Commit(queue=queue):
                return [f"commit: {queue}"]
            case ir.QueueArrive(queue=queue):
                made = [f"commit: {queue}", f"arrives: {self._reference(operation.barrier)}"]
                return made + _option("count", operation.count, ONE)
            case ir.QueueWait(queue=queue):
                made = [f"drain: {queue}", *_option("leaving", operation.pending, ZERO)]
                return made + (["until: read"] if operation.until is ir.Until.READ else [])
            case ir.Fence(kind=kind, spaces=spaces):
                listed = ", ".join(space.value for space in spaces)
                return [f"fence: {_FENCES[kind]}"] + ([f"spaces: [{listed}]"] if listed else [])
            case ir.PoolTake(pool=pool, amount=amount):
                return [f"take: {self._at(pool)}", f"amount: {to_text(amount)}"]
            case ir.PoolGive(pool=pool, amount=amount):
                return [f"give: {self._at(pool)}", f"amount: {to_text(amount)}"]
        return self._barrier_statement(operation)

    def _barrier_statement(self, operation: ir.Operation) -> list[str]:
        match operation:
            case ir.Init():
                made = [f"init: {self._reference(operation.barrier)}"]
                declared = Constant(self.counts.get(operation.barrier.name, 1))
                return made + _option("count", operation.count, declared)
            case ir.Invalidate():
                return [f"invalidate: {self._reference(operation.barrier)}"]
            case ir.Arrive():
                made = [f"arrive: {self._reference(operation.barrier)}"]
                made += _option("count", operation.count, ONE)
                made += _option("bytes", operation.transaction, ZERO)
                made += ["drop: true"] if operation.drop else []
                made += ["token: true"] if operation.token else []
                return made + _reach(operation.order, operation.scope)
            case ir.ExpectTransaction():
                made = [f"expect: {self._reference(operation.barrier)}"]
                return [*made, f"bytes: {to_text(operation.bytes)}"]
            case ir.Wait(phase=phase):
                made = [f"wait: {self._reference(operation.barrier)}"]
                made += [f"phase: {to_text(phase)}"] if phase is not None else []
                made += [] if phase is not None else [f"parity: {to_text(operation.parity)}"]
                return made + _reach(operation.order, operation.scope)
            case ir.BarrierSync():
                made = [f"sync: {self._reference(operation.barrier)}"]
                made += [f"threads: {to_text(operation.threads)}"]
                return made + _reach(operation.order, ir.Scope.CTA)
            case ir.BarrierArrive():
                made = [f"arrive: {self._reference(operation.barrier)}"]
                made += [f"threads: {to_text(operation.threads)}"]
                return made + _reach(operation.order, ir.Scope.CTA)
            case ir.BarrierWait():
                made = [f"wait: {self._reference(operation.barrier)}"]
                return made + _reach(operation.order, ir.Scope.CTA)
        raise NotWritableError(f"an operation {type(operation).__name__}")

    def _access(self, operation: ir.Access) -> list[str]:
        proxies = {effect.proxy for effect in operation.effects}
        if len(proxies) > 1:
            raise NotWritableError("an access through several proxies")
        made = ["access:"]
        for word, write in (("reads", False), ("writes", True)):
            effects = [effect for effect in operation.effects if effect.write is write]
            if effects:
                made += self._listed(f"  {word}: ", effects)
        proxy = next(iter(proxies), ir.Proxy.GENERIC)
        return made if proxy is ir.Proxy.GENERIC else [*made, f"  proxy: {proxy}"]

    def _asynchronous(self, operation: ir.Asynchronous) -> list[str]:
        proxies = {
            effect.proxy
            for effect in operation.effects
            if self.buffers[effect.buffer].space not in _ONE_PATH
        }
        if len(proxies) > 1:
            raise NotWritableError("an asynchronous operation through several proxies")
        proxy = next(iter(proxies), ir.Proxy.ASYNC)
        reads = [effect for effect in operation.effects if not effect.write]
        writes = [effect for effect in operation.effects if effect.write]
        accumulates = {effect.accumulates for effect in writes}
        if True in accumulates:
            if len(accumulates) > 1 or proxy is not ir.Proxy.ASYNC:
                raise NotWritableError("a matrix instruction that also writes other memory")
            made = [*self._listed("mma: ", reads), *self._listed("into: ", writes)]
        elif not operation.effects and not operation.completes:
            raise NotWritableError("an asynchronous operation that touches nothing")
        else:
            made = ["async:"]
            made += self._listed("  reads: ", reads) if reads else []
            made += self._listed("  writes: ", writes) if writes else []
            made += [f"  proxy: {proxy}"] if proxy is not ir.Proxy.ASYNC else []
            made = ["async: {}"] if len(made) == 1 else made
        if operation.queue is not None:
            made.append(f"queue: {operation.queue}")
        if operation.completes:
            sizes = {to_text(item.bytes) for item in operation.completes}
            if len(sizes) > 1:
                raise NotWritableError("a copy that completes barriers by different bytes")
            places = ", ".join(self._reference(item.barrier) for item in operation.completes)
            made += [f"completes: {places}", f"bytes: {sizes.pop()}"]
        return made + ([f"chunks: {operation.chunks}"] if operation.chunks > 1 else [])

    def _listed(self, start: str, effects: Sequence[ir.Effect]) -> list[str]:
        """`reads: [a, b]`, over several lines where it is long."""
        lines, line = [], f"{start}["
        for number, effect in enumerate(effects):
            last = number + 1 == len(effects)
            piece = self._piece(effect)
            piece = f'"{piece}"' if "[" in piece else piece  # within brackets YAML wants quotes
            piece += "]" if last else ","
            if len(line) + len(piece) > WIDTH:
                lines.append(line.rstrip())
                line = " " * (len(start) + 1)
            line += piece if last else f"{piece} "
        return [*lines, line if effects else f"{line}]"]

    def _piece(self, effect: ir.Effect) -> str:
        buffer = self.buffers[effect.buffer]
        index = to_text(effect.stage)
        text = effect.buffer
        if effect.part is not None and buffer.parts > 1:
            text = f"{text}[{index}, {to_text(effect.part)}]"
        elif buffer.stages > 1:
            text = f"{text}[{index}]"
        return self._at(text, effect.buffer)

    def _reference(self, reference: ir.Reference) -> str:
        plain = reference.index == ZERO and self.stages.get(reference.name, 1) == 1
        text = reference.name if plain else f"{reference.name}[{to_text(reference.index)}]"
        return self._at(text, reference.name)

    def _at(self, text: str, name: str = "") -> str:
        """The reference with the CTA that has it."""
        name = name or text
        if self.ctas == 1 or name not in self.owner:
            return text
        buffer = self.buffers.get(name)
        if buffer is not None and buffer.space is ir.Space.GLOBAL:
            return text
        return f"{text}@{self.owner[name]}"


def _option(word: str, value: Expression, default: Constant) -> list[str]:
    return [] if value == default else [f"{word}: {to_text(value)}"]


def _reach(order: ir.Order, scope: ir.Scope) -> list[str]:
    made = ["order: relaxed"] if order is ir.Order.RELAXED else []
    return made + (["scope: cluster"] if scope is ir.Scope.CLUSTER else [])


def _named_barrier(item: ir.NamedBarrier) -> str:
    return f"{item.name}: {{scope: {item.scope}}}"


def _queue(item: ir.Queue) -> str:
    """By its properties: a kind would bring rules for agents that are whole warpgroups."""
    parts = [f"{word}: {str(getattr(item, word)).lower()}"
             for word in ("grouped", "ordered", "pipelined")]  # fmt: skip
    return f"{item.name}: {{{', '.join(parts)}}}"


def quoted(text: str) -> str:
    """A string as YAML takes it, in double quotes."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
