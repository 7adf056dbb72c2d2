"""From the located tree of a kernel file to its kernels, with every fault reported at once.

The sizes come first; everything else is then read once for every combination of them, so that
stages, counts and indices are numbers wherever the sizes say so.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from titan.foundation.diagnostics.codes import find
from titan.foundation.diagnostics.model import Diagnostic, sort_key
from titan.foundation.diagnostics.wording import quoted
from titan.foundation.source.reader import Fields, Reader
from titan.foundation.source.tree import Mapping, Node
from titan.foundation.source.yaml import parse_text
from titan.language.kernel.context import Context
from titan.language.kernel.declarations import (
    Declarations,
    Declared,
    RoleHead,
    read_ctas,
    read_policies,
)
from titan.language.kernel.exits import arrive_by_ending
from titan.language.kernel.model import Allowance, Family, Kernel, RoleShape
from titan.language.kernel.scope import KernelTerms, NameScope
from titan.language.kernel.sizes import Overrides, Sizes, read_sizes, scope_of
from titan.language.kernel.statements import (
    Statements,
    TooMany,
    ends_unmet,
    groups_of,
    to_block,
)
from titan.language.kernel.table import SECTIONS, TARGETS, TOP_LEVEL, VERSION
from titan.language.protocol import model
from titan.language.protocol.counters import with_hardware_counters
from titan.sync import program as ir
from titan.sync.expression import Constant, Name
from titan.sync.own_registers import own_registers

_REQUIRED = ("titan", "kernel", "target", "roles", "program")
_OPTIONAL = (
    *(key.name for key in TOP_LEVEL if not key.required),
    *(section.name for section in SECTIONS if section.name != "roles"),
    "sizes",
    "policies",
    "allow",
)


def decode_text(
    text: str,
    path: str = "<text>",
    overrides: Overrides | None = None,
    computations: bool = False,
) -> tuple[Family | None, list[Diagnostic]]:
    """The kernels of a text, or None and what is wrong with it."""
    root, errors = parse_text(text, path)
    return decode(root, errors, path, overrides or {}, computations=computations)


def decode(
    root: Node | None,
    errors: Iterable[Diagnostic],
    path: str,
    overrides: Overrides,
    only: int | None = None,
    computations: bool = False,
) -> tuple[Family | None, list[Diagnostic]]:
    """The kernels of a tree: one for every combination of its sizes, or the one numbered `only`.

    `overrides` that name no size of the file are ignored; the caller knows which were meant.
    `computations`: `compute` statements are kept, for emission; no engine takes such a program.
    """
    reader = Reader(errors)
    if root is None:
        return None, _reported(reader)
    if reader.is_other(root, "kernel"):
        return None, _reported(reader)
    top = reader.mapping(root, required=_REQUIRED, optional=_OPTIONAL, what="the kernel")
    if top is None or not _version(reader, top):
        return None, _reported(reader)
    sizes = read_sizes(reader, top.get("sizes"), overrides)
    kernels = []
    for number, chosen in enumerate(sizes.combinations()):
        if only not in (None, number):
            continue
        found = _Decoder(reader, top, path, sizes, chosen, computations).kernel()
        if not reader.ok or found is None:
            return None, _reported(reader)
        kernels.append(found)
    return Family(kernels[0].name, path, tuple(kernels)), []


def size_names(root: Node | None) -> frozenset[str]:
    """The sizes that a file declares, without decoding it."""
    node = root.get("sizes") if isinstance(root, Mapping) else None
    return frozenset(node.names) if isinstance(node, Mapping) else frozenset()


def _version(reader: Reader, top: Fields) -> bool:
    node = top.get("titan")
    number = reader.integer(node, what="`titan`") if node is not None else VERSION
    if number is None or number == VERSION:
        return True
    assert node is not None
    headline = f"version {number} of the language is not known"
    helps = (f"this version of titan reads `titan: {VERSION}`",)
    reader.error("TTN016", headline, node.span, helps=helps)
    return False


def _reported(reader: Reader) -> list[Diagnostic]:
    """Each fault once: those of a role are found again in every CTA."""
    return sorted(dict.fromkeys(reader.errors), key=sort_key)


class _Decoder:
    """Reads a file for one choice of its sizes."""

    def __init__(
        self,
        reader: Reader,
        top: Fields,
        path: str,
        sizes: Sizes,
        chosen: dict[str, int],
        computations: bool,
    ) -> None:
        self.reader = reader
        self.top = top
        self.path = path
        self.sizes = sizes
        self.chosen = chosen
        self.computations = computations
        self.terms = KernelTerms(reader)
        self.statements = 0

    def kernel(self) -> Kernel | None:
        reader, top = self.reader, self.top
        name = reader.identifier(top["kernel"], "the kernel's name") if top.has("kernel") else ""
        target = reader.choice(top["target"], TARGETS, "`target`") if top.has("target") else ""
        note, source = self._text("note"), self._text("source")
        scope, parameters, numbers = scope_of(reader, self.sizes, self.chosen)
        ctas = read_ctas(reader, self.terms, scope, top.get("ctas"))
        policies = read_policies(reader, top.get("policies"))
        declarations = Declarations(reader, scope, target or "", ctas)
        declared = declarations.read(top, self.sizes.spans)
        allowances = self._allowances()
        try:
            roles = self._roles(declared, scope, ctas)
        except TooMany:
            return None
        self._check_per(parameters, roles)
        if not reader.ok or name is None or target is None:
            return None
        things = expand(declared, ctas)
        self._check_storages(things)
        kernel = Kernel(
            name,
            target,
            self.path,
            tuple(numbers.items()),
            tuple(
                RoleShape(
                    head.name, head.agents, head.threads, head.registers, head.span, head.outside
                )
                for head in declared.roles.values()
            ),
            placement=declared.placement(),
            note=note,
            source=source,
            ctas=ctas,
            allowances=allowances,
            span=top.key_span("kernel"),
        )
        protocol = model.Protocol(
            name, target, things.rings, tuple(roles), parameters, things.buffers, things.named,
            tuple(declared.queues.values()), things.pools, policies, span=kernel.span,
            barriers=things.barriers, queue_kinds=tuple(declared.kind_of.items()),
        )  # fmt: skip
        if declared.rings:
            return replace(kernel, protocol=protocol)
        program = with_hardware_counters(_sync_program(protocol), protocol.queue_kinds)
        return replace(kernel, program=own_registers(program))

    def _text(self, key: str) -> str:
        node = self.top.get(key)
        if node is None:
            return ""
        return self.reader.string(node, f"`{key}`", 10_000) or ""

    def _allowances(self) -> tuple[Allowance, ...]:
        node = self.top.get("allow")
        found = []
        for item in self.reader.sequence(node, what="`allow`") or () if node is not None else ():
            fields = self.reader.mapping(item, required=("rule", "reason"), what="an allowance")
            if fields is None or not fields.has("rule") or not fields.has("reason"):
                continue
            rule = self.reader.string(fields["rule"], "`rule`")
            reason = self.reader.string(fields["reason"], "`reason`")
            entry = find(rule) if rule is not None else None
            if entry is None or reason is None:
                if rule is not None and entry is None:
                    headline = f"there is no rule {quoted(rule)}"
                    self.reader.error("TTN010", headline, fields["rule"].span)
                continue
            if entry.severity != "warning":
                headline = f"the rule {entry.code} {entry.name} cannot be allowed"
                note = "only warnings can; a refuted kernel stays refuted"
                self.reader.error("TTN017", headline, fields["rule"].span, notes=(note,))
            found.append(Allowance(entry.code, reason, fields["rule"].span))
        return tuple(found)

    # Roles

    def _roles(self, declared: Declared, scope: NameScope, ctas: int) -> list[model.ProtocolRole]:
        node = self.top.get("program")
        programs = self.reader.names(node, "`program`") if node is not None else None
        if programs is None:
            return []
        leaving = [] if declared.cluster_of_groups else _leaving(declared, programs)
        declared.cluster_threads -= sum(
            head.agents * head.threads * (ctas if head.cta is None else 1) for head in leaving
        )
        for name in programs:
            if name not in declared.roles:
                known = declared.of_kind("role")
                self.reader.undeclared(name, programs.key_span(name), known, "role")
        roles: list[model.ProtocolRole] = []
        counted: set[str] = set()  # those that a cluster barrier waits for
        for head in declared.roles.values():
            if not programs.has(head.name):
                headline = f"the role {quoted(head.name)} has no program"
                self.reader.error("TTN007", headline, head.span)
                continue
            for cta in range(ctas) if head.cta is None else (head.cta,):
                made = self._role(declared, head, programs[head.name], scope, cta, ctas)
                roles.append(made)
                counted |= set() if head.outside or head in leaving else {made.name}
        if not declared.roles and self.reader.ok:
            self.reader.error("TTN007", "the kernel has no roles", self.top.key_span("roles"))
        if declared.cluster_of_groups or self.computations:
            return roles
        return arrive_by_ending(roles, counted, _of_cluster(declared), declared.cluster_threads)

    def _role(
        self, declared: Declared, head: RoleHead, node: Node, scope: NameScope, cta: int, ctas: int
    ) -> model.ProtocolRole:
        inner = scope.child()
        inner.names["cta"], inner.names["ctas"] = Constant(cta), Constant(ctas)
        if ctas == 2:
            inner.names["peer"] = Constant(1 - cta)
        inner.names[head.index] = Name(head.index)
        counters = frozenset(name for name, _ in head.counters)
        for name in counters:
            inner.names[name] = Name(name)
        context = Context(
            self.reader, self.terms, declared, head, cta, ctas, groups_of(node),
            self.statements, counters, self.computations,
        )  # fmt: skip
        body = Statements(context).block(node, inner, 0)
        self.statements = context.statements
        name = head.name if ctas == 1 or head.outside else f"{head.name}@{cta}"
        return model.ProtocolRole(
            name, body, head.agents, head.threads, head.registers, cta, head.index,
            head.counters, head.span,
        )  # fmt: skip

    def _check_per(
        self, parameters: tuple[ir.Parameter, ...], roles: list[model.ProtocolRole]
    ) -> None:
        """`per` must name a loop variable of the program."""
        variables: set[str] = set()
        waiting: list[model.Statement] = [item for role in roles for item in role.body]
        while waiting:
            item = waiting.pop()
            if isinstance(item, model.For):
                variables.add(item.variable)
                waiting += item.body
            elif isinstance(item, model.When | model.WhenPoisoned):
                waiting += (*item.then, *item.otherwise)
        for parameter in parameters:
            if parameter.per is not None and parameter.per not in variables and self.reader.ok:
                span = self.sizes.spans[parameter.name]
                self.reader.undeclared(parameter.per, span, variables, "loop variable")

    def _check_storages(self, things: Things) -> None:
        """Buffers in one storage must be in one space and one CTA."""
        first: dict[str, ir.Buffer] = {}
        for buffer in things.buffers:
            storage = buffer.storage or buffer.name
            other = first.setdefault(storage, buffer)
            if (other.space, other.cta) != (buffer.space, buffer.cta):
                names = f"{quoted(other.name)} and {quoted(buffer.name)}"
                headline = f"{names} share a storage but not a memory"
                assert buffer.span is not None
                self.reader.error("TTN017", headline, buffer.span)


def _of_cluster(declared: Declared) -> list[str]:
    return [name for name, item in declared.named.items() if item.scope is ir.Scope.CLUSTER]


def _leaving(declared: Declared, programs: Fields) -> list[RoleHead]:
    """Roles that end by themselves and never come: no cluster barrier waits for their threads.

    Exited threads count as arrived (PTX, barrier.cluster). A role that another agent may hold up
    is counted, and so is every role where the hardware counts work-groups.
    """
    names = _of_cluster(declared)
    return [
        head
        for head in declared.roles.values()
        if not head.outside and programs.has(head.name) and ends_unmet(programs[head.name], names)
    ]


class Things:
    """The declared things of all CTAs."""

    def __init__(self) -> None:
        self.buffers: tuple[ir.Buffer, ...] = ()
        self.rings: tuple[model.Ring, ...] = ()
        self.barriers: tuple[ir.Barrier, ...] = ()
        self.named: tuple[ir.NamedBarrier, ...] = ()
        self.pools: tuple[ir.Pool, ...] = ()


def expand(declared: Declared, ctas: int) -> Things:
    """Every declared thing in every CTA that has it, as `name@cta` in a cluster."""

    def homes(name: str) -> list[tuple[str, int]]:
        place = declared.places[name]
        if ctas == 1 or place.shared:
            return [(name, 0)]
        where = range(ctas) if place.cta is None else (place.cta,)
        return [(f"{name}@{cta}", cta) for cta in where]

    def suffixed(name: str, instance: str) -> str:
        return name + instance[instance.index("@") :] if "@" in instance and name else name

    things = Things()
    things.buffers = tuple(
        replace(buffer, name=name, cta=cta, storage=suffixed(buffer.storage, name))
        for buffer in declared.buffers.values()
        for name, cta in homes(buffer.name)
    )
    things.barriers = tuple(
        replace(barrier, name=name, cta=barrier.cta or cta)  # one that no CTA keeps says so
        for barrier in declared.barriers.values()
        for name, cta in homes(barrier.name)
    )
    things.named = tuple(
        replace(barrier, name=name)
        for barrier in declared.named.values()
        for name, _ in homes(barrier.name)
    )
    things.pools = tuple(
        replace(pool, name=name) for pool in declared.pools.values() for name, _ in homes(pool.name)
    )
    things.rings = tuple(
        replace(ring, name=name, buffers=tuple(suffixed(item, name) for item in ring.buffers))
        for ring in declared.rings.values()
        for name, _ in homes(ring.name)
    )
    return things


def _sync_program(protocol: model.Protocol) -> ir.SyncProgram:
    roles = tuple(
        ir.Role(
            role.name,
            to_block(role.body),
            role.agents,
            role.threads,
            role.cta,
            role.agent_constant,
            role.variables,
            role.span,
        )
        for role in protocol.roles
    )
    return ir.SyncProgram(
        protocol.name,
        protocol.target,
        roles,
        protocol.parameters,
        protocol.barriers,
        protocol.named_barriers,
        protocol.buffers,
        protocol.queues,
        protocol.pools,
        protocol.policies,
        protocol.span,
    )
