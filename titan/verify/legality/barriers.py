"""mbarriers and named barriers: places, counts, bytes, ids, threads.

Source: PTX ISA, mbarrier ("Contents of the mbarrier object") and bar. ptxas takes any count for
`mbarrier.init` and `expect_tx`, so no other tool reports it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction

from titan.foundation.diagnostics.model import Diagnostic
from titan.foundation.diagnostics.wording import listed, quoted
from titan.foundation.source.span import Span
from titan.sync.expression import Constant
from titan.sync.parts import barriers_of, effects_of
from titan.sync.program import (
    Arrive,
    Assign,
    Asynchronous,
    BarrierArrive,
    BarrierSync,
    BarrierWait,
    Block,
    Branch,
    ExpectTransaction,
    Init,
    Invalidate,
    Loop,
    Operation,
    PoolTake,
    QueueArrive,
    QueueWait,
    Reference,
    Role,
    Scope,
    Space,
    TokenWait,
    Wait,
)
from titan.verify.legality.case import Case, plain
from titan.verify.legality.rule import rule

# After these, bytes that were expected before may be complete, or be of another barrier.
_INTERRUPTING = (
    Wait, TokenWait, QueueWait, BarrierSync, BarrierWait, PoolTake, Loop, Branch, Assign,
)  # fmt: skip


@rule("TTN414", "barrier_alignment")
def barrier_address(case: Case) -> Iterator[Diagnostic]:
    """An mbarrier lies at a multiple of 8 bytes."""
    asked = case.limits.number("barrier_alignment")
    spans = {plain(item.name): item.span for item in case.program.barriers}
    for name, base in case.kernel.placement.barrier_bases:
        if asked and base % asked:
            headline = f"the mbarrier {quoted(name)} lies at byte {base}, not a multiple of {asked}"
            yield case.fault("TTN414", headline, spans.get(name), source="barrier_alignment")
    if asked and len(case.kernel.placement.barrier_bases) < len(spans):
        case.assume(f"mbarriers lie at multiples of {asked} bytes")


@rule("TTN404", "barrier_count_max")
def barrier_counts(case: Case) -> Iterator[Diagnostic]:
    """An mbarrier expects 1 to 2^20 - 1 arrivals."""
    most = case.limits.number("barrier_count_max")
    given = [(item.count, item.span) for item in case.program.barriers]
    for _, operation in case.operations:
        if isinstance(operation, Init):
            counts = case.values_of(operation, operation.count)
            given += [(count, operation.span) for count in counts]
    for count, span in given if most else ():
        if not 1 <= count <= (most or 0):
            headline = f"an mbarrier expects {count} arrivals; 1 to {most} are allowed"
            yield case.fault("TTN404", headline, span, source="barrier_count_max")


@rule("TTN404", "barrier_count_max")
def arrivals_count(case: Case) -> Iterator[Diagnostic]:
    """One operation arrives 1 to 2^20 - 1 times."""
    most = case.limits.number("barrier_count_max")
    for _, operation in case.operations if most else ():
        if not isinstance(operation, Arrive | QueueArrive):
            continue
        for count in case.values_of(operation, operation.count):
            if not 1 <= count <= (most or 0):
                headline = f"an operation arrives {count} times; 1 to {most} are allowed"
                yield case.fault("TTN404", headline, operation.span, source="barrier_count_max")
                break


@rule("TTN404", "transaction_max")
def transaction_bytes(case: Case) -> Iterator[Diagnostic]:
    """No operation expects more than 2^20 - 1 bytes; of ring stages lowering reports the same."""
    most = case.limits.number("transaction_max")
    if most is None:
        return
    for _, operation in case.operations:
        counts: list[int] = []
        if isinstance(operation, Arrive):
            counts = case.values_of(operation, operation.transaction)
        elif isinstance(operation, ExpectTransaction):
            counts = case.values_of(operation, operation.bytes)
        elif isinstance(operation, Asynchronous):
            for completion in operation.completes:
                counts += case.values_of(operation, completion.bytes)
        does = "completes" if isinstance(operation, Asynchronous) else "expects"
        for count in counts:
            if not 0 <= count <= most:
                headline = f"a phase {does} {count} bytes; at most {most} are counted"
                yield case.fault("TTN404", headline, operation.span, source="transaction_max")
                break


@rule("TTN404", "transaction_max")
def bytes_of_a_phase(case: Case) -> Iterator[Diagnostic]:
    """All that is expected of one phase stays within 2^20 - 1 bytes, as far as the text shows.

    Engines count what a run expects (`TTN207`); here the sums are reported that every run has.
    """
    most = case.limits.number("transaction_max")
    if most is None:
        return
    single = (item for _, item in case.operations if isinstance(item, Arrive | ExpectTransaction))
    reported = {plain(item.barrier.name) for item in single if _constant_bytes(item) > most}
    for name, least, span in [*_least_of_arrivals(case), *_in_a_row(case)]:
        if least > most and plain(name) not in reported:
            reported.add(plain(name))
            headline = f"a phase of {quoted(plain(name))} expects {least} bytes in all; at most "
            headline += f"{most} are counted"
            yield case.fault("TTN404", headline, span, source="transaction_max")


def _least_of_arrivals(case: Case) -> Iterator[tuple[str, int, Span | None]]:
    """Of each barrier: the least that the arrivals of one phase expect together."""
    counts = {item.name: item.count for item in case.program.barriers if item.initialised}
    bytes_each: dict[str, list[tuple[Fraction, Span | None]]] = {name: [] for name in counts}
    for _, operation in case.operations:
        if isinstance(operation, QueueArrive | Arrive) and operation.barrier.name in counts:
            count, least = operation.count, Fraction(0)
            if isinstance(operation, Arrive) and isinstance(count, Constant) and count.value > 0:
                least = Fraction(_constant_bytes(operation), count.value)
            bytes_each[operation.barrier.name].append((least, operation.span))
    for name, found in bytes_each.items():
        if found:
            least, span = min(found, key=lambda item: item[0])
            yield name, int(least * counts[name]), span


def _in_a_row(case: Case) -> Iterator[tuple[str, int, Span | None]]:
    """What one agent expects of one barrier without waiting for anything in between."""
    for block in _blocks(case):
        sums: dict[Reference, int] = {}
        for operation in block:
            if isinstance(operation, _INTERRUPTING):
                sums = {}
                continue
            if not isinstance(operation, Arrive | ExpectTransaction):
                continue
            total = sums.get(operation.barrier, 0) + _constant_bytes(operation)
            sums[operation.barrier] = total
            yield operation.barrier.name, total, operation.span
            if isinstance(operation, Arrive):
                sums.pop(operation.barrier, None)  # its phase may be complete


def _constant_bytes(operation: Arrive | ExpectTransaction) -> int:
    """The bytes that it expects, as far as they are a number of the text."""
    bytes_of = operation.transaction if isinstance(operation, Arrive) else operation.bytes
    return max(bytes_of.value, 0) if isinstance(bytes_of, Constant) else 0


def _blocks(case: Case) -> Iterator[Block]:
    """The blocks of all roles, but what is never reached."""
    reached = {id(operation) for _, operation in case.operations}
    found = [role.body for role in case.program.roles]
    for _, operation in case.operations:
        if isinstance(operation, Loop):
            found.append(operation.body)
        elif isinstance(operation, Branch):
            found += [operation.then, operation.otherwise]
    for block in found:
        yield tuple(operation for operation in block if id(operation) in reached)


@rule("TTN405", "named_barriers")
def named_barrier_ids(case: Case) -> Iterator[Diagnostic]:
    """A CTA has 16 named barriers, a work-group of CDNA one barrier."""
    number = case.limits.number("named_barriers")
    ids: Counter[str] = Counter()
    first: dict[str, Span | None] = {}
    for barrier in case.program.named_barriers:
        if barrier.scope is Scope.CTA and not case.in_a_warp(barrier.name):
            home = barrier.name.partition("@")[2]
            ids[home] += barrier.stages
            if number is not None and ids[home] > number:
                first.setdefault(home, barrier.span)
    for home, span in list(first.items())[:1]:
        has = f"{number}, with ids 0 to {(number or 0) - 1}" if number != 1 else "1"
        headline = f"{ids[home]} named barriers in one CTA; {case.kernel.target} has {has}"
        yield case.fault("TTN405", headline, span, source="named_barriers")


@rule("TTN415", "named_barrier_multiple", "threads_max")
def named_barrier_threads(case: Case) -> Iterator[Diagnostic]:
    """Threads at a named barrier are whole warps, and no more than the CTA has.

    An agent of less than a warp may represent one, so its numbers are not those of the instruction.
    """
    multiple = case.limits.number("named_barrier_multiple")
    if multiple is None:
        return
    scopes = {item.name: item.scope for item in case.program.named_barriers}
    reported = set()
    for role, operation, threads in _meetings(case):
        name = operation.barrier.name
        if scopes.get(name) is not Scope.CTA or case.in_a_warp(name):
            continue
        if role.threads % multiple and threads <= multiple:
            case.assume(f"the agents that meet at {plain(name)} are taken as whole warps")
            continue
        most = case.threads(role.cta)
        if threads % multiple:
            headline = f"{threads} threads meet at {quoted(plain(name))}, not a multiple of "
            headline += str(multiple)
        elif threads > most:
            headline = f"{threads} threads are declared for {quoted(plain(name))}; the CTA has "
            headline += str(most)
        else:
            continue
        if headline not in reported:
            reported.add(headline)
            yield case.fault("TTN415", headline, operation.span, source="named_barrier_multiple")


def _meetings(case: Case) -> Iterator[tuple[Role, BarrierSync | BarrierArrive, int]]:
    """Arrivals at named barriers, each with every number of threads that it names."""
    for role, operation in case.operations:
        if isinstance(operation, BarrierSync | BarrierArrive):
            for threads in case.values_of(operation, operation.threads):
                yield role, operation, threads


@rule("TTN415", "named_barrier_multiple", "threads_per_warp")
def warp_barrier_is_among_its_threads(case: Case) -> Iterator[Diagnostic]:
    """`bar.warp.sync` joins threads of one warp: agents of one role, or lanes of one agent."""
    most = case.target.threads_per_warp
    source = "PTX, bar.warp.sync: threads of the executing warp that the mask names"
    meets: dict[str, Role] = {}
    reported = set()
    for role, operation in case.operations:
        if not isinstance(operation, BarrierSync | BarrierArrive | BarrierWait):
            continue
        name = operation.barrier.name
        if not case.in_a_warp(name) or name in reported:
            continue
        threads: list[int] = []
        if isinstance(operation, BarrierSync):
            threads = case.values_of(operation, operation.threads)
        headline = ""
        if not isinstance(operation, BarrierSync):
            headline = (
                f"{quoted(plain(name))} synchronises the threads of one warp, which "
                "arrive and wait in one step"
            )
        elif role.threads > most:
            headline = f"an agent of {quoted(plain(role.name))} has {role.threads} threads, and "
            headline += f"{quoted(plain(name))} synchronises the threads of one warp"
        elif role.threads == most and set(threads) - {most}:
            other = min(set(threads) - {most})
            headline = f"{other} threads synchronise at {quoted(plain(name))}, where the "
            headline += f"lanes of one agent of {most} do"
        elif max(threads, default=0) > most:
            headline = f"{max(threads)} threads meet at {quoted(plain(name))}; a warp has {most}"
        elif meets.setdefault(name, role) is not role:
            headline = f"{quoted(plain(meets[name].name))} and {quoted(plain(role.name))} meet at "
            headline += f"{quoted(plain(name))}, which synchronises the threads of one warp"
        if headline:
            reported.add(name)
            yield case.fault("TTN415", headline, operation.span, source=source)


@rule("TTN415", "cluster_max")
def cluster_barrier_counts_all(case: Case) -> Iterator[Diagnostic]:
    """A cluster barrier has no count: it waits for every thread of the cluster that has not ended.

    Roles that never come to it may be left out of the count if nothing makes them wait: they end.
    """
    scopes = {item.name: item.scope for item in case.program.named_barriers}
    roles = [role for role in case.program.roles if role.cta in case.ctas]
    groups = case.target.cluster_barrier_counts_groups
    reported = set()
    for _, operation, threads in _meetings(case):
        name = operation.barrier.name
        if scopes.get(name) is not Scope.CLUSTER:
            continue
        counted = [role for role in roles if case.comes_to(role, name) or case.may_block(role)]
        everybody, these = (sum(r.agents * r.threads for r in some) for some in (roles, counted))
        if groups:  # one wave of each work-group signals
            everybody = these = case.kernel.ctas * case.target.threads_per_warp
        if threads not in (everybody, these) and name not in reported:
            reported.add(name)
            headline = f"{threads} threads are declared for {quoted(plain(name))}; a cluster "
            headline += f"barrier waits for all {everybody} of the cluster"
            helps = ("leave out `threads`: the hardware counts them",)
            yield case.fault(
                "TTN415",
                headline,
                operation.span,
                helps=helps,
                source="PTX, barrier.cluster: all threads of the cluster that have not exited",
            )


@rule("TTN415", "named_barriers", "threads_per_warp")
def workgroup_barrier_counts_all(case: Case) -> Iterator[Diagnostic]:
    """The one barrier of a work-group of CDNA has no count: it waits for every wave.

    For every wave that has not ended: a role that never comes to it and waits for nobody ends.
    """
    if case.nvidia or case.limits.number("named_barriers") != 1:
        return
    scopes = {item.name: item.scope for item in case.program.named_barriers}
    reported = set()
    for role, operation, threads in _meetings(case):
        name, most = operation.barrier.name, case.threads(role.cta)
        if scopes.get(name) is not Scope.CTA or case.in_a_warp(name):
            continue
        home = [other for other in case.program.roles if other.cta == role.cta]
        stay = [other for other in home if case.comes_to(other, name) or case.may_block(other)]
        these = sum(other.agents * other.threads for other in stay)
        if threads not in (most, these) and name not in reported:
            reported.add(name)
            headline = f"{threads} threads are declared for {quoted(plain(name))}; the barrier "
            headline += f"waits for all {most} of the work-group"
            helps = _elsewhere(case, most - threads, name)
            yield case.fault(
                "TTN415", headline, operation.span, source="named_barriers", helps=helps
            )


def _elsewhere(case: Case, missing: int, name: str) -> tuple[str, ...]:
    """Roles that are not counted, use global memory alone, and may represent who runs elsewhere."""
    found = []
    for role in case.program.roles:
        mine = [item for owner, item in case.operations if owner is role]
        meets = any(
            isinstance(item, BarrierSync | BarrierArrive) and item.barrier.name == name
            for item in mine
        )
        spaces = {
            case.memories[plain(effect.buffer)].buffer.space
            for item in mine
            for effect in effects_of(item)
        }
        if not meets and spaces <= {Space.GLOBAL, Space.REGISTER}:
            found.append((role, mine))
    if not found or sum(role.agents * role.threads for role, _ in found) != missing:
        return ()
    flags = sorted(
        {
            plain(reference.name)
            for _, mine in found
            for item in mine
            for reference in barriers_of(item)
            if case.is_mbarrier(reference.name)
        }
    )
    words = f"if {listed([plain(role.name) for role, _ in found])} run elsewhere (another "
    words += "GPU, another grid, the host), declare `outside: true` for the role"
    if flags:
        words += f", and `kind: flag` of the barrier {listed(flags)}"
    return (words,)


@rule("TTN435", "named_barriers")
def grid_ends_before_who_waits(case: Case) -> Iterator[Diagnostic]:
    """The end of a grid is waited for in a later one: no role of it does, nor one beside it."""
    own = {role.name for role in case.own_roles}
    ending: dict[str, set[str]] = {}
    for role, item in case.operations:
        if isinstance(item, Arrive) and case.is_grid(item.barrier.name):
            ending.setdefault(item.barrier.name, set()).add(plain(role.name))
    for role, item in case.operations:
        if not isinstance(item, Wait | TokenWait):
            continue
        name, who = item.barrier.name, plain(role.name)
        beside = ending.get(name, set()) & (own if who in own else {who})
        if beside:
            headline = f"{quoted(who)} waits for {quoted(plain(name))}, the end of the grid that "
            headline += f"it runs in itself, by {listed(sorted(beside))}"
            helps = ("declare `outside: true` for the roles of the other grid",)
            source = "PTX, griddepcontrol.wait: waits for prerequisite grids, of earlier launches"
            yield case.fault("TTN435", headline, item.span, source=source, helps=helps)
            return


def _acts_at_home(operation: Operation) -> str:
    """What an operation does that only the barrier's own CTA can; empty for others."""
    if isinstance(operation, Wait | TokenWait):
        return "waits on"
    if isinstance(operation, Init | Invalidate):
        return "initialises" if isinstance(operation, Init) else "invalidates"
    if isinstance(operation, Arrive) and operation.token:
        return "keeps a token of"
    return ""


@rule("TTN425", "barrier_bytes")
def remote_barrier(case: Case) -> Iterator[Diagnostic]:
    """Another CTA's mbarrier takes arrivals and bytes; waits, tokens and its life stay at home."""
    homes = {item.name: item.cta for item in case.program.barriers}
    source = "PTX, mbarrier: support with shared memory; ptxas refuses each"
    for role, operation in case.operations if case.nvidia else ():
        does = _acts_at_home(operation)
        if not does:
            continue
        assert isinstance(operation, Wait | TokenWait | Init | Invalidate | Arrive)
        name = operation.barrier.name
        if case.is_mbarrier(name) and homes.get(name, role.cta) != role.cta:
            headline = f"CTA {role.cta} {does} {quoted(plain(name))} of CTA {homes[name]}"
            yield case.fault("TTN425", headline, operation.span, source=source)
