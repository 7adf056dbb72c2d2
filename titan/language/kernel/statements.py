"""Programs of roles: control flow, protocol statements, and sync statements wrapped in them.

A role is always read as a protocol body; a kernel without rings is then a plain sync program
(`titan/language/kernel/decode.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from titan.foundation.diagnostics.wording import quoted
from titan.foundation.errors import UserError
from titan.foundation.source.span import Span
from titan.foundation.source.tree import Mapping, Node, Scalar, Sequence
from titan.language.kernel.clause import Clause, read_clause
from titan.language.kernel.context import Context
from titan.language.kernel.scope import NameScope, Ref
from titan.language.kernel.sync_verbs import BUFFER, MBARRIER, NAMED, QUEUE, SyncVerbs
from titan.language.kernel.table import NESTING_MAX, RESERVED, STATEMENTS_MAX
from titan.language.protocol import model
from titan.sync import program as ir
from titan.sync.expression import Constant, Expression, Name

RING = "ring"
_RANGE = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*)\s+in\s+(.+?)\s*\.\.\s*(.+?)\s*")
_WORDS = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WAITING_VERBS = ("wait", "sync", "acquire", "take", "read", "finalize")  # for other agents
Made = list[model.Statement]


class TooMany(UserError):
    """The file has more statements than a kernel may have; reported already."""


class Statements:
    """Reads the program of one role in one CTA."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.reader = context.reader
        self.sync = SyncVerbs(context)
        self.loop_variables: set[str] = set()
        self._loops: list[str] = []  # the variables of the loops around a statement
        sync = self.sync
        self.sync_verbs: dict[str, Callable[[Clause, NameScope], list[ir.Operation]]] = {
            "init": sync.lifecycle,
            "invalidate": sync.lifecycle,
            "arrive": sync.arrive,
            "expect": sync.expect,
            "sync": sync.sync,
            "load": sync.access,
            "store": sync.access,
            "access": sync.access,
            "commit": sync.commit,
            "fence": sync.fence,
            "take": sync.pool,
            "give": sync.pool,
        }
        for verb in ("bulk_load", "bulk_store", "mma", "cp_async", "lds_dma", "async"):
            self.sync_verbs[verb] = sync.asynchronous
        self.verbs: dict[str, Callable[[Clause, NameScope, int], Made]] = {
            "for": self._for,
            "if": self._if,
            "count": self._count,
            "let": self._let,
            "compute": self._compute,
            "acquire": self._acquire,
            "produce": self._produce,
            "read": self._read,
            "issue": self._issue,
            "release": self._release,
            "when poisoned": self._when_poisoned,
            "finalize": self._finalize,
            "wait": self._wait,
            "drain": self._drain,
        }

    def block(self, node: Node, scope: NameScope, depth: int) -> model.Body:
        """A list of statements; `let` names last to its end."""
        if depth > NESTING_MAX:
            self.reader.error("TTN003", f"nesting is deeper than {NESTING_MAX} levels", node.span)
            return ()
        if isinstance(node, Scalar) and node.is_null:
            return ()
        items = self.reader.sequence(node, what="a block of statements")
        inner = scope.child()
        made: Made = []
        for item in items or ():
            self._count_statement(item)
            clause = read_clause(self.reader, item)
            if clause is not None:
                changed = counters_changed(item)
                if clause.verb.name == "for":  # a later round of it meets what an earlier changed
                    inner.change(changed)
                made += self.statement(clause, inner, depth)
                inner.change(changed)
        return tuple(made)

    def _count_statement(self, node: Node) -> None:
        self.context.statements += 1
        if self.context.statements > STATEMENTS_MAX:
            headline = f"the program has more than {STATEMENTS_MAX} statements"
            self.reader.error("TTN003", headline, node.span)
            raise TooMany

    def statement(self, clause: Clause, scope: NameScope, depth: int) -> Made:
        """What one clause represents, `when` included."""
        verb = clause.verb.name
        if verb in self.verbs:
            made = self.verbs[verb](clause, scope, depth)
        else:
            operations = self.sync_verbs[verb](clause, scope)
            made = [model.Primitive(operation, span=clause.span) for operation in operations]
        made = self._by(clause, made)
        condition_node = clause.get("when")
        if condition_node is None:
            return made
        if verb == "let":
            self.reader.error("TTN017", "`let` takes no condition", clause.option_spans["when"])
            return made
        condition = self.context.terms.expression(condition_node, scope, "`when`", truth=True)
        if condition is None or not made:
            return []
        return [model.When(condition, tuple(made), span=clause.span)]

    def _by(self, clause: Clause, made: Made) -> Made:
        """Marks what one thread or warp does for the agent, or each of its threads."""
        who = self.context.word(clause, "by", "") if clause.get("by") is not None else ""
        if not who:
            return made
        if any(not isinstance(item, model.Primitive) for item in made):
            headline = f"{clause.what} of a ring has no option `by`"
            self.reader.error("TTN006", headline, clause.option_spans["by"])
        return [
            replace(item, operation=replace(item.operation, by=who))
            if isinstance(item, model.Primitive)
            else item
            for item in made
        ]

    # Control

    def _for(self, clause: Clause, scope: NameScope, depth: int) -> Made:
        node = clause.objects[0]
        found = _RANGE.fullmatch(node.text) if isinstance(node, Scalar) else None
        if found is None or not isinstance(node, Scalar):
            helps = ("write `for: t in 0..tiles`",)
            self.reader.error("TTN015", "this is not a loop range", node.span, helps=helps)
            return []
        variable = found.group(1)
        self._new_name(variable, node.span.within(found.start(1), len(variable)))
        bounds: list[Expression | None] = []
        for group in (2, 3):
            place = node.span.within(found.start(group), len(found.group(group)))
            text = found.group(group)
            bounds.append(self.context.terms.text(text, place, scope, "a bound of the loop"))
        inner = scope.child()
        inner.define(variable, Name(variable))
        self._loops.append(variable)
        body = self.block(clause.options["do"], inner, depth + 1)
        self._loops.pop()
        if bounds[0] is None or bounds[1] is None:
            return []
        return [model.For(variable, bounds[0], bounds[1], body, span=clause.span)]

    def _new_name(self, name: str, span: Span) -> None:
        """A loop variable or `let` name must not hide what is declared, or a loop around it.

        An inner loop of the same variable would change how often the outer one goes round.
        """
        taken = name in RESERVED or name in self.context.declared.kinds
        taken = taken or name == self.context.head.index or name in self.context.counters
        if taken or name in self._loops:
            self.reader.error("TTN013", f"the name {quoted(name)} is already in use", span)
        elif len(name) > 64:
            self.reader.error("TTN009", "a name is longer than 64 characters", span)

    def _condition(self, clause: Clause, scope: NameScope) -> Expression | None:
        node = clause.objects[0]
        return self.context.terms.expression(node, scope, "the condition", truth=True)

    def _arms(self, clause: Clause, scope: NameScope, depth: int) -> tuple[model.Body, model.Body]:
        then, otherwise = clause.get("then"), clause.get("else")
        if then is None and otherwise is None:
            self.reader.error("TTN007", f"{clause.what} lacks `then`", clause.span)
        return (
            self.block(then, scope, depth + 1) if then is not None else (),
            self.block(otherwise, scope, depth + 1) if otherwise is not None else (),
        )

    def _if(self, clause: Clause, scope: NameScope, depth: int) -> Made:
        condition = self._condition(clause, scope)
        then, otherwise = self._arms(clause, scope, depth)
        if condition is None:
            return []
        if isinstance(condition, Constant):
            return list(then if condition.value else otherwise)
        return [model.When(condition, then, otherwise, span=clause.span)]

    def _count(self, clause: Clause, scope: NameScope, depth: int) -> Made:
        names = self.reader.names(clause.objects[0], "`count`")
        made: Made = []
        for name in names or ():
            assert names is not None
            what = f"counter {quoted(name)}"
            value = self.context.terms.expression(names[name], scope, what, truth=True)
            if name not in self.context.counters:
                span = names.key_span(name)
                self.reader.undeclared(name, span, self.context.counters, "counter of this role")
            elif value is not None:
                made.append(model.Count(name, value, span=clause.span))
            scope.change({name})
        return made

    def _let(self, clause: Clause, scope: NameScope, depth: int) -> Made:
        names = self.reader.names(clause.objects[0], "`let`")
        for name in names or ():
            assert names is not None
            self._new_name(name, names.key_span(name))
            what = f"the name {quoted(name)}"
            value = self.context.terms.expression(names[name], scope, what, truth=True)
            scope.define(name, value if value is not None else Constant(0))
        return []

    def _compute(self, clause: Clause, scope: NameScope, depth: int) -> Made:
        """Kept for emission only; no verdict depends on it."""
        name = self.reader.identifier(clause.objects[0], "the computation")
        index = self.context.expression(clause, "tile", scope, Constant(0))
        if clause.get("when") is not None:
            span = clause.option_spans["when"]
            self.reader.error("TTN017", "`compute` takes no condition", span)
        if not self.context.computations or name is None or index is None:
            return []
        operation = ir.Compute(name, index, span=clause.span)
        return [model.Primitive(operation, span=clause.span)]

    # Protocol statements

    def _slots(self, clause: Clause, scope: NameScope) -> list[tuple[str, Expression]]:
        """The ring references that a verb acts on."""
        slots = []
        for node in clause.objects:
            ref = self.context.reference(node, scope, clause.what, RING)
            slot = self._slot(ref) if ref is not None else None
            if slot is not None:
                slots.append(slot)
        return slots

    def _slot(self, ref: Ref) -> tuple[str, Expression] | None:
        index = self.context.terms.affine(ref, "ring")
        name = self.context.instance(ref)
        return (name, index) if index is not None and name is not None else None

    def _acquire(self, clause: Clause, scope: NameScope, depth: int) -> Made:
        return [model.Acquire(*slot, span=clause.span) for slot in self._slots(clause, scope)]

    def _produce(self, clause: Clause, scope: NameScope, depth: int) -> Made:
        size = self.context.expression(clause, "bytes", scope)
        poison = self.context.expression(clause, "poison", scope)
        last = self.context.flag(clause, "last", True)
        stored = self.context.flag(clause, "stored", False)
        return [
            model.Produce(
                *slot, size, poison, self._buffers(clause, slot[0]), last, stored, span=clause.span
            )
            for slot in self._slots(clause, scope)
        ]

    def _read(self, clause: Clause, scope: NameScope, depth: int) -> Made:
        made: Made = []
        for operand in self._operands(clause.objects, scope):
            only = self._buffers(clause, operand.ring) or operand.buffers
            made.append(model.ReadStage(operand.ring, operand.index, only, span=clause.span))
        return made

    def _buffers(self, clause: Clause, instance: str) -> tuple[str, ...]:
        """`buffers`: some of those of the ring."""
        node = clause.get("buffers")
        name, _, cta = instance.partition("@")
        ring = self.context.declared.rings.get(name)
        if node is None or ring is None:
            return ()
        chosen = []
        for item in self.context.nodes(node):
            text = self.reader.identifier(item, "a buffer")
            if text is not None and text not in ring.buffers:
                noun = f"buffer of ring {quoted(name)}"
                self.reader.undeclared(text, item.span, ring.buffers, noun)
            elif text is not None:
                chosen.append(f"{text}@{cta}" if cta else text)
        return tuple(chosen)

    def _operands(self, nodes: tuple[Node, ...], scope: NameScope) -> list[model.Operand]:
        """Rings, or buffers of rings, each at an iteration; the same ring and index become one."""
        found: dict[tuple[str, Expression], tuple[str, ...]] = {}
        for node in nodes:
            ref = self.context.reference(node, scope, "an operand", RING, BUFFER)
            if ref is None:
                continue
            owner = self.context.declared.ring_of.get(ref.name)
            if self.context.declared.kinds[ref.name] == BUFFER and owner is None:
                headline = f"the buffer {quoted(ref.name)} belongs to no ring"
                help_text = "outside of rings, use `mma`, `load` or `async`"
                self.reader.error("TTN011", headline, ref.span, helps=(help_text,))
                continue
            buffer = self.context.instance(ref) if owner is not None else None
            slot = self._slot(
                ref if owner is None else Ref(owner, ref.span, ref.index, None, ref.cta)
            )
            if slot is None or (owner is not None and buffer is None):
                continue
            whole = found.get(slot) == ()
            more = () if buffer is None or whole else (*found.get(slot, ()), buffer)
            found[slot] = tuple(dict.fromkeys(more))
        return [model.Operand(ring, index, names) for (ring, index), names in found.items()]

    def _issue(self, clause: Clause, scope: NameScope, depth: int) -> Made:
        nodes = (*clause.objects, *self.context.nodes(clause.get("mma")))
        operands = self._operands(nodes, scope)
        fills = self._operands(self.context.nodes(clause.get("into")), scope)
        group = self.reader.identifier(clause.options["as"], "the group")
        if not nodes and clause.get("into") is None:
            self.reader.error("TTN007", "`issue` has no operands", clause.span)
        if group is None or not (operands or fills):
            return []
        kind = self.context.declared.kinds.get(group)
        if kind not in (None, QUEUE):
            span = clause.options["as"].span
            self.reader.error("TTN013", f"the group {quoted(group)} is a {kind} already", span)
        adds = tuple(self._operands(self.context.nodes(clause.get("accumulates")), scope))
        beside = self.sync.reads_of_engine(clause, scope)
        return [model.Issue(tuple(operands), group, tuple(fills), adds, beside, span=clause.span)]

    def _release(self, clause: Clause, scope: NameScope, depth: int) -> Made:
        node = clause.get("after")
        after = self.reader.identifier(node, "`after`") if node is not None else None
        if after is not None and node is not None and after not in self.context.groups:
            self.reader.undeclared(after, node.span, self.context.groups, "group")
        return [
            model.Release(*slot, after, span=clause.span) for slot in self._slots(clause, scope)
        ]

    def _when_poisoned(self, clause: Clause, scope: NameScope, depth: int) -> Made:
        slots = self._slots(clause, scope)
        then, otherwise = self._arms(clause, scope, depth)
        return [model.WhenPoisoned(*slot, then, otherwise, span=clause.span) for slot in slots]

    def _finalize(self, clause: Clause, scope: NameScope, depth: int) -> Made:
        return [model.Finalize(span=clause.span)]

    # Verbs of both levels

    def _wait(self, clause: Clause, scope: NameScope, depth: int) -> Made:
        made: Made = []
        for node in clause.objects:
            kinds = (RING, MBARRIER, NAMED, QUEUE)
            ref = self.context.reference(node, scope, clause.what, *kinds)
            if ref is None:
                continue
            kind = self.context.declared.kinds[ref.name]
            if kind == RING:
                self.context.only(clause, RING, ())
                slot = self._slot(ref)
                made += [model.WaitReady(*slot, span=clause.span)] if slot is not None else []
                continue
            for operation in self.sync.wait(clause, node, scope, kind):
                made.append(model.Primitive(operation, span=clause.span))
        return made

    def _drain(self, clause: Clause, scope: NameScope, depth: int) -> Made:
        made: Made = []
        for node in clause.objects:
            if isinstance(node, Scalar) and node.text in self.context.groups:
                pending = self.context.expression(clause, "pending", scope, Constant(0))
                leaving = self.context.expression(clause, "leaving", scope, pending)
                if self.context.word(clause, "until", "done") != "done":
                    span = clause.option_spans["until"]
                    self.reader.error("TTN017", "a group is drained to its end", span)
                if leaving is not None:
                    made.append(model.Drain(node.text, leaving, span=clause.span))
            elif isinstance(node, Scalar) and node.text in self.context.declared.queues:
                for operation in self.sync.queue_wait(clause, node, scope):
                    made.append(model.Primitive(operation, span=clause.span))
            else:
                known = self.context.groups | self.context.declared.of_kind(QUEUE)
                text = node.text if isinstance(node, Scalar) else "this"
                self.reader.undeclared(text, node.span, known, "group or queue")
        return made


def groups_of(node: Node) -> frozenset[str]:
    """The names that `issue ... as` gives anywhere in the program of a role."""
    return frozenset(value for key, value in _texts(node) if key == "as" and value)


def counters_changed(node: Node) -> set[str]:
    """The counters to which a statement, or one inside it, gives a new value."""
    found: set[str] = set()
    waiting = [node]
    while waiting:
        item = waiting.pop()
        if isinstance(item, Sequence):
            waiting += item.items
        elif isinstance(item, Mapping):
            waiting += [entry.value for entry in item]
            counts = [entry.value for entry in item if entry.key.text == "count"]
            found.update(*(value.names for value in counts if isinstance(value, Mapping)))
    return found


def ends_unmet(node: Node, barriers: Iterable[str]) -> bool:
    """Whether a role ends by itself and comes to none of `barriers`, as far as its text shows.

    True is sure: nothing in it waits for another agent, and no text of it names a barrier.
    """
    words = {word for pair in _texts(node) for text in pair for word in _WORDS.findall(text)}
    return not words & {*barriers, *_WAITING_VERBS}


def _texts(node: Node) -> Iterator[tuple[str, str]]:
    """Every text of a program: keys with the text of their value, if it is one, and items."""
    waiting = [node]
    while waiting:
        item = waiting.pop()
        if isinstance(item, Sequence):
            waiting += item.items
        elif isinstance(item, Scalar):
            yield "", item.text
        else:
            for entry in item:
                value = entry.value
                yield entry.key.text, value.text if isinstance(value, Scalar) else ""
                if not isinstance(value, Scalar):
                    waiting.append(value)


def to_block(body: model.Body) -> ir.Block:
    """The operations of a body that uses no rings."""
    operations: list[ir.Operation] = []
    for statement in body:
        match statement:
            case model.Primitive(operation=operation):
                operations.append(operation)
            case model.For(variable=variable, start=start, stop=stop, body=inner):
                loop = ir.Loop(variable, start, stop, to_block(inner), span=statement.span)
                operations.append(loop)
            case model.When(condition=condition, then=then, otherwise=otherwise):
                branch = ir.Branch(
                    condition, to_block(then), to_block(otherwise), span=statement.span
                )
                operations.append(branch)
            case model.Count(variable=variable, value=value):
                operations.append(ir.Assign(variable, value, span=statement.span))
            case model.Finalize():
                pass
            case _:
                raise TypeError(f"no operation for {type(statement).__name__}")
    return tuple(operations)
