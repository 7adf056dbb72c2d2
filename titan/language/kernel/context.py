"""The context in which statements of one role in one CTA are read: names, CTA, declarations."""

from __future__ import annotations

from dataclasses import field

from titan.foundation.diagnostics.wording import listed, quoted
from titan.foundation.records import dataclass
from titan.foundation.source.reader import Reader
from titan.foundation.source.tree import Node, Scalar
from titan.language.kernel.clause import Clause
from titan.language.kernel.declarations import Declared, RoleHead
from titan.language.kernel.scope import KernelTerms, NameScope, Ref
from titan.sync.expression import ZERO, Constant, Expression
from titan.sync.program import Scope, Space


@dataclass(slots=True)
class Context:
    """`groups` are the names that `issue ... as` gives in this role.

    `computations`: statements that only name a computation are kept.
    """

    reader: Reader
    terms: KernelTerms
    declared: Declared
    head: RoleHead
    cta: int
    ctas: int
    groups: frozenset[str] = frozenset()
    statements: int = 0
    counters: frozenset[str] = field(default_factory=frozenset)
    computations: bool = False

    # Values of options

    def expression(
        self, clause: Clause, name: str, scope: NameScope, default: Expression | None = None
    ) -> Expression | None:
        """An option as expression, or `default` where absent; None after a report if faulty."""
        node = clause.get(name)
        if node is None:
            return default
        return self.terms.expression(node, scope, f"`{name}`", truth=name == "poison")

    def flag(self, clause: Clause, name: str, default: bool = False) -> bool:
        """An option as truth value; `default` where it is absent or faulty (reported)."""
        node = clause.get(name)
        found = self.reader.boolean(node, f"`{name}`") if node is not None else default
        return default if found is None else found

    def word(self, clause: Clause, name: str, default: str) -> str:
        """An option as one of the words of its key; `default` where absent or faulty (reported)."""
        node = clause.get(name)
        if node is None:
            return default
        words = next(key.words for key in clause.verb.options if key.name == name)
        return self.reader.choice(node, words, f"`{name}`") or default

    def nodes(self, node: Node | None) -> tuple[Node, ...]:
        """The items of a list, or the one item without brackets."""
        if node is None:
            return ()
        return (node,) if isinstance(node, Scalar) else self.reader.sequence(node) or ()

    def only(self, clause: Clause, noun: str, allowed: tuple[str, ...]) -> None:
        """Report options that the verb has, but not for an object of this kind."""
        for name in clause.options:
            if name not in (*allowed, "when", "by"):
                headline = f"{clause.what} of a {noun} has no option {quoted(name)}"
                helps = (f"known here: {listed(allowed)}",) if allowed else ()
                span = clause.option_spans[name]
                self.reader.error("TTN006", headline, span, helps=helps)

    def scope(self, clause: Clause, name: str) -> Scope:
        """The scope of an operation at a barrier; a flag and the end of a grid are for all."""
        wide = self.declared.kind_of.get(name) in ("flag", "grid")
        return Scope(self.word(clause, "scope", "cluster" if wide else "cta"))

    # References

    def instance(self, ref: Ref) -> str | None:
        """The name of the declared thing in the CTA that is meant."""
        place = self.declared.places.get(ref.name)
        if self.head.outside and not self.everywhere(ref.name):
            headline = f"{quoted(self.head.name)} runs outside of the cluster, and "
            headline += f"{quoted(ref.name)} belongs to it"
            helps = ("what is outside shares global memory, and barriers of kind `flag` or `grid`",)
            self.reader.error("TTN017", headline, ref.span, helps=helps)
            return None
        if self.ctas == 1 or place is None or place.shared:
            if ref.cta is not None and ref.cta != Constant(0):
                headline = f"{quoted(ref.name)} exists once, not in every CTA"
                self.reader.error("TTN009", headline, ref.span)
                return None
            return ref.name
        where: Expression = Constant(place.cta if place.cta is not None else self.cta)
        if ref.cta is not None:
            where = ref.cta
        if not isinstance(where, Constant):
            headline = "the CTA of a reference must be a number in each CTA"
            note = "it may depend on sizes, `cta`, `ctas` and `peer`"
            self.reader.error("TTN009", headline, ref.span, notes=(note,))
            return None
        if not 0 <= where.value < self.ctas or place.cta not in (None, where.value):
            headline = f"{quoted(ref.name)} does not exist in CTA {where.value}"
            self.reader.error("TTN009", headline, ref.span)
            return None
        return f"{ref.name}@{where.value}"

    def everywhere(self, name: str) -> bool:
        """Whether the thing is in global memory, where all of the machine can reach it."""
        buffer = self.declared.buffers.get(name)
        if buffer is not None:
            return buffer.space is Space.GLOBAL and self.declared.places[name].shared
        return self.declared.kind_of.get(name) in ("flag", "grid")

    def reference(self, node: Node, scope: NameScope, what: str, *kinds: str) -> Ref | None:
        """A reference to something of one of `kinds`, without part or tile."""
        ref = self.terms.reference(node, scope, what)
        if ref is None:
            return None
        if self.declared.kinds.get(ref.name) not in kinds:
            self.wrong_kind(ref, kinds)
            return None
        if ref.part is not None or ref.tile is not None:
            self.reader.error("TTN015", f"{what} takes one index and no tile", ref.span)
            return None
        return ref

    def wrong_kind(self, ref: Ref, kinds: tuple[str, ...]) -> None:
        """Report a name that is something else, or nothing."""
        found = self.declared.kinds.get(ref.name)
        wanted = " or ".join(kinds)
        place = ref.span.within(0, len(ref.name))
        if found is not None:
            headline = f"{quoted(ref.name)} is a {found}, not a {wanted}"
            self.reader.error("TTN011", headline, place)
            return
        self.terms.unknown(ref, self.declared.of_kind(*kinds), wanted)

    def index(self, ref: Ref) -> Expression:
        """The index of a reference; zero where none is written."""
        return ZERO if ref.index is None else ref.index
