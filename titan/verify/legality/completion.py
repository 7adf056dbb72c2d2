"""Completion: an operation is waited for where it completes, and reaches whom it can.

The facts are rows of `backends/<target>/completion.yaml`. A queue kind that the target lacks
is judged by the targets that have it (`TTN427` warns of it); a queue without a kind represents what
the file does not say, and is assumed to fit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property

from titan.foundation.diagnostics.model import Diagnostic
from titan.foundation.diagnostics.wording import listed, quoted
from titan.language.kernel.table import QUEUE_KINDS
from titan.sync.expression import ZERO
from titan.sync.program import (
    Access,
    Asynchronous,
    Buffer,
    Effect,
    Proxy,
    QueueArrive,
    QueueWait,
    Role,
    Space,
    Until,
)
from titan.target.completion import (
    ANY_VERB,
    MBARRIER,
    CompletionHome,
    CompletionRow,
    CompletionTable,
    CounterRow,
    OperationReach,
    Signature,
    Waits,
    all_completions,
)
from titan.verify.legality.case import Case, plain
from titan.verify.legality.rule import rule

_VERBS = ("bulk_load", "bulk_store", "mma", "cp_async", "lds_dma")
_PLACED = (Space.SHARED, Space.TENSOR)


class CompletionView:
    """The rows that judge one kernel: of its target, or of whoever has a borrowed queue kind."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.own = case.target.completion

    @cached_property
    def buffers(self) -> dict[str, Buffer]:
        """The program's buffers by name."""
        return {buffer.name: buffer for buffer in self.case.program.buffers}

    def kind(self, queue: str | None) -> str:
        """The kind of a queue; `tcgen05` for loads of tensor memory alone is `tcgen05_ld`, etc."""
        found = self.case.queue_kind(queue)
        if not found or queue in self.committed:
            return found
        seen = [signature(item, self.buffers) for item in self.items.get(queue or "", ())]
        for table in self.tables(found) if seen else ():
            for narrower in (kind for kind in table.counters if kind.startswith(f"{found}_")):
                if all(any(narrower in row.by for row in table.rows(one)) for one in seen):
                    return narrower
        return found

    @cached_property
    def items(self) -> dict[str, list[Asynchronous]]:
        """The operations of each queue."""
        found: dict[str, list[Asynchronous]] = {}
        for _, item in self.case.asynchronous:
            found.setdefault(item.queue or "", []).append(item)
        return found

    @cached_property
    def committed(self) -> frozenset[str]:
        """The queues that arrive at an mbarrier."""
        found = (item for _, item in self.case.operations if isinstance(item, QueueArrive))
        return frozenset(item.queue for item in found)

    def tables(self, kind: str) -> tuple[CompletionTable, ...]:
        """The tables that judge a queue of a kind; empty where nothing is known."""
        if self.own is None:
            return ()
        if not kind or kind in self.own.counters:
            return (self.own,)
        vendor = tuple(item for item in all_completions() if kind in item.counters)
        return tuple(item for item in vendor if item.vendor is self.own.vendor) or vendor

    def counter(self, kind: str) -> CounterRow | None:
        """The row of a queue kind; None for one that no target has."""
        return next((item.counters[kind] for item in self.tables(kind)), None) if kind else None

    def rows(self, item: Asynchronous) -> tuple[CompletionRow, ...] | None:
        """The rows that the operation can be of; None where nothing is known of it."""
        kind = self.kind(item.queue)
        seen = signature(item, self.buffers)
        tables = self.tables(kind)
        found = tuple(row for table in tables for row in table.rows(seen))
        if found or not tables:
            return found or None
        if any(row.verb == seen.verb for table in tables for row in table.operations):
            return found
        # Another target's word; what the target has no row for is judged where there is one.
        return tuple(row for table in all_completions() for row in table.rows(seen)) or None

    def by_other_proxy(self, item: Asynchronous) -> tuple[CompletionRow, ...]:
        """The rows that the operation would be of through another proxy, where it is of none."""
        if self.rows(item) != ():
            return ()
        seen = replace(signature(item, self.buffers), proxies=frozenset())
        return tuple(
            row for table in self.tables(self.kind(item.queue)) for row in table.rows(seen)
        )


def signature(item: Asynchronous, buffers: dict[str, Buffer]) -> Signature:
    """What the effects and the label of an operation say of it. Tensor maps are left out."""
    effects = [effect for effect in item.effects if effect.proxy is not Proxy.TENSORMAP]
    spaces = {
        write: frozenset(
            buffers[effect.buffer].space.value for effect in effects if effect.write is write
        )
        for write in (False, True)
    }
    in_memory = (Space.SHARED, Space.GLOBAL)
    proxies = frozenset(
        effect.proxy.value for effect in effects if buffers[effect.buffer].space in in_memory
    )
    verb = item.label if item.label in _VERBS else ANY_VERB
    return Signature(verb, spaces[False], spaces[True], proxies)


@rule("TTN428", "operations")
def completes_where_the_hardware_does(case: Case) -> Iterator[Diagnostic]:
    """An operation goes to the counter, group or barrier that its instruction completes by."""
    view = CompletionView(case)
    for _, item in case.asynchronous:
        rows = view.rows(item)
        if rows is None or view.by_other_proxy(item):
            continue
        kind = view.kind(item.queue)
        asked = ([kind] if kind else []) + ([MBARRIER] if item.completes else [])
        for what in asked:
            if any(what in row.by for row in rows):
                continue
            yield _misplaced(case, item, what, rows)
        if item.queue is None and not item.completes and rows:
            continue  # nothing waits for it, which other rules report
        if item.queue is not None and not kind:
            case.assume(f"the queue {plain(item.queue)} is what its operations complete in")


def _misplaced(
    case: Case, item: Asynchronous, what: str, rows: tuple[CompletionRow, ...]
) -> Diagnostic:
    """The finding on an operation that does not complete by `what`."""
    verb = item.label if item.label in _VERBS else "the operation"
    instead = sorted({kind for row in rows for kind in row.by})
    if what == MBARRIER:
        headline = f"{verb} does not complete on an mbarrier"
    else:
        headline = f"{verb} does not complete in {what}"
    if instead:
        headline += f"; it completes in {listed(instead, 'or')}"
    notes = tuple(dict.fromkeys(row.source for row in rows))
    label = "the wait for this operation does not cover it"
    return case.fault("TTN428", headline, item.span, source="; ".join(notes[:2]), label=label)


@rule("TTN435", "operations")
def goes_through_the_proxy_of_its_instruction(case: Case) -> Iterator[Diagnostic]:
    """An asynchronous operation reaches memory through the proxy that its instruction has."""
    view = CompletionView(case)
    for _, item in case.asynchronous:
        rows = view.by_other_proxy(item)
        if not rows:
            continue
        proxies = sorted({row.proxy for row in rows})
        names = sorted({row.name or row.verb for row in rows})
        headline = f"{listed(names, 'or')} goes through the {listed(proxies, 'or')} proxy, and "
        headline += f"this operation through the {listed(sorted(_proxies(view, item)))} proxy"
        helps = tuple(f"write `proxy: {proxy}`" for proxy in proxies)
        source = "; ".join(dict.fromkeys(row.source for row in rows))
        yield case.fault("TTN435", headline, item.span, source=source, helps=helps)


def _proxies(view: CompletionView, item: Asynchronous) -> frozenset[str]:
    return signature(item, view.buffers).proxies


@rule("TTN435", "operations")
def copy_completes_on_one_barrier(case: Case) -> Iterator[Diagnostic]:
    """A copy completes on one mbarrier in each CTA that it writes to.

    Copies that one statement starts are separated before (`titan/sync/destinations.py`).
    """
    for _, item in case.asynchronous:
        names = sorted({plain(done.barrier.name) for done in item.completes})
        if len({done.barrier for done in item.completes}) > 1:
            headline = f"one copy completes on several mbarriers: {listed(names)}"
            source = "PTX, cp.async.bulk: one mbarrier, which a multicast signals in each CTA"
            helps = ("name one barrier for each buffer that the statement fills, in their order",)
            yield case.fault("TTN435", headline, item.span, source=source, helps=helps)


@rule("TTN425", "operations")
def barrier_is_with_its_data(case: Case) -> Iterator[Diagnostic]:
    """An operation completes on an mbarrier of the CTA that it writes to, or of its pair."""
    view = CompletionView(case)
    homes = {item.name: item.cta for item in case.program.barriers}
    for _, item in case.asynchronous:
        written = {
            view.buffers[effect.buffer].cta
            for effect in item.effects
            if effect.write and view.buffers[effect.buffer].space in _PLACED
        }
        rows = tuple(row for row in view.rows(item) or () if MBARRIER in row.by)
        for completion in item.completes:
            home = homes.get(completion.barrier.name)
            if home is None or not written or not rows or home in written:
                continue
            near = {cta ^ 1 for cta in written}
            if home in near and any(row.completes_in is CompletionHome.PAIR for row in rows):
                continue
            headline = f"{item.label or 'the operation'} into CTA {min(written)} completes on "
            headline += f"{quoted(plain(completion.barrier.name))} of CTA {home}"
            yield case.fault("TTN425", headline, item.span, source=rows[0].source)


@rule("TTN428", "operations")
def counter_arrives(case: Case) -> Iterator[Diagnostic]:
    """Only some counters and groups can arrive at an mbarrier, and some at those of their CTA."""
    view = CompletionView(case)
    homes = {item.name: item.cta for item in case.program.barriers}
    for role, item in case.operations:
        if not isinstance(item, QueueArrive):
            continue
        row = view.counter(view.kind(item.queue))
        if row is None:
            continue
        queue, name = quoted(plain(item.queue)), item.barrier.name
        if row.arrives is OperationReach.NOWHERE:
            headline = f"{row.kind} cannot arrive at an mbarrier ({queue})"
            yield case.fault("TTN428", headline, item.span, source=row.source)
        elif row.arrives is OperationReach.OWN and homes.get(name, role.cta) != role.cta:
            headline = f"{row.kind} arrives at mbarriers of its own CTA only, and "
            headline += f"{quoted(plain(name))} is of CTA {homes[name]}"
            yield case.fault("TTN425", headline, item.span, source=row.source)


@rule("TTN428", "operations")
def counter_waits(case: Case) -> Iterator[Diagnostic]:
    """A wait exists for the counter: by count or for everything, for reads alone or not."""
    view = CompletionView(case)
    for _, item in case.operations:
        if not isinstance(item, QueueWait):
            continue
        row = view.counter(view.kind(item.queue))
        if row is None:
            continue
        if row.waits is Waits.NONE:
            headline = f"no wait exists for {row.kind} ({quoted(plain(item.queue))})"
            helps = ("let a commit arrive at an mbarrier and wait for that",)
            yield case.fault("TTN428", headline, item.span, source=row.source, helps=helps)
        elif row.waits is Waits.ALL and item.pending != ZERO:
            headline = f"a wait for {row.kind} waits for everything, not down to a count"
            yield case.fault("TTN428", headline, item.span, source=row.source)
        elif item.until is Until.READ and not row.reads:
            headline = f"no wait exists for the reads of {row.kind} alone"
            yield case.fault("TTN428", headline, item.span, source=row.source)


@rule("TTN434", "operations")
def drains_what_it_issues(case: Case) -> Iterator[Diagnostic]:
    """A wait for a group or counter is for what the waiting agent itself has issued."""
    view = CompletionView(case)
    issued = {(role.name, view.kind(item.queue) or item.queue) for role, item in case.asynchronous}
    # A wave's own loads and stores count too, and may be taken as done at once.
    own = {role.name for role, item in case.operations if case.target.amd and type(item) is Access}
    reported = set()
    for role, item in case.operations:
        key = role.name, item.queue if isinstance(item, QueueWait) else ""
        if not isinstance(item, QueueWait) or role.name in own or key in reported:
            continue
        if (role.name, view.kind(item.queue) or item.queue) in issued:
            continue
        reported.add(key)
        headline = f"{quoted(plain(role.name))} waits for {quoted(plain(item.queue))} and issues "
        headline += "nothing to it: the wait passes at once"
        others = sorted({plain(r.name) for r, op in case.asynchronous if op.queue == item.queue})
        helps = ("leave the wait out",)
        if others:
            who = f"let the issuer, {listed(others, 'or')}, wait"
            helps = (f"{who}, and signal the others through a barrier",)
        source = "PTX, wait_group: groups of the executing thread; s_waitcnt: counters of the wave"
        yield case.fault("TTN434", headline, item.span, source=source, helps=helps)


@rule("TTN428", "operations")
def queue_is_no_stronger_than_its_kind(case: Case) -> Iterator[Diagnostic]:
    """A declared queue orders and pipelines no more than the counter that it names."""
    for name, kind in case.kernel.placement.kinds:
        known = QUEUE_KINDS.get(kind)
        queue = next((item for item in case.program.queues if item.name == name), None)
        if known is None or queue is None:
            continue
        _, ordered, pipelined = known
        for word, asked, has in (
            ("ordered", queue.ordered, ordered),
            ("pipelined", queue.pipelined, pipelined),
        ):
            if asked and not has:
                headline = f"{kind} is not {word}, and the queue {quoted(name)} says it is"
                yield case.fault("TTN428", headline, queue.span)


@rule("TTN425", "operations")
def memory_within_reach(case: Case) -> Iterator[Diagnostic]:
    """An asynchronous operation touches the shared and tensor memory that it can name."""
    view = CompletionView(case)
    for role, item in case.asynchronous:
        rows = view.rows(item) or ()
        kind = view.kind(item.queue)
        rows = tuple(row for row in rows if not kind or kind in row.by)
        placed = [e for e in item.effects if view.buffers[e.buffer].space in _PLACED]
        missed = (e for e in placed if not any(_reaches(view, role, row, e) for row in rows))
        effect = next(missed, None) if rows else None
        if effect is None:
            continue
        home = view.buffers[effect.buffer].cta
        does = "writes" if effect.write else "reads"
        headline = f"{item.label or 'the operation'} {does} {quoted(plain(effect.buffer))} of "
        headline += "its own CTA" if home == role.cta else f"CTA {home}"
        only = "other CTAs" if home == role.cta else "its own CTA"
        headline += f"; it reaches {only} only"
        yield case.fault("TTN425", headline, item.span, source=rows[0].source)


def _reaches(view: CompletionView, role: Role, row: CompletionRow, effect: Effect) -> bool:
    """Whether an operation of the row, by the role, can name the memory of the effect."""
    reach = row.writes_in if effect.write else row.reads_in
    far = view.buffers[effect.buffer].cta != role.cta
    return (
        reach in (OperationReach.CLUSTER, OperationReach.PEER)
        if far
        else (reach is not OperationReach.PEER)
    )
