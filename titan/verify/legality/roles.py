"""Roles: threads, warpgroups, registers of setmaxnreg, CTAs of a cluster.

Sources: PTX ISA, wgmma (a warpgroup) and setmaxnreg; CUDA programming guide, technical
specifications. The pool law is a deduction that CUTLASS keeps to: registers are given out at launch
evenly, and what one warpgroup takes, others must have given back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from titan.foundation.diagnostics.model import Diagnostic
from titan.foundation.diagnostics.wording import quoted
from titan.sync.parts import barriers_of, effects_of
from titan.sync.program import Asynchronous, Operation, PoolGive, PoolTake, Space
from titan.verify.legality.alone import unlike_members
from titan.verify.legality.case import Case, plain, round_up
from titan.verify.legality.rule import rule


@rule("TTN420", "threads_max")
def threads_of_a_cta(case: Case) -> Iterator[Diagnostic]:
    """A CTA has at most 1024 threads."""
    most = case.limits.number("threads_max")
    needed = max((case.threads(cta) for cta in case.ctas), default=0)
    if most is not None and needed > most:
        headline = f"the roles have {needed} threads in one CTA; {case.kernel.target} has {most}"
        place = case.own_roles[0].span if case.own_roles else None
        yield case.fault("TTN420", headline, place, source="threads_max")


@rule("TTN416", "warps_per_warpgroup", "threads_per_warp")
def warpgroups_issue_wgmma(case: Case) -> Iterator[Diagnostic]:
    """A role that issues wgmma is made of whole warpgroups."""
    width, warps = case.limits.number("threads_per_warp"), case.limits.number("warps_per_warpgroup")
    issuing = {
        plain(role.name): role
        for role, item in case.operations
        if isinstance(item, Asynchronous) and case.queue_kind(item.queue) == "wgmma"
    }
    for item in case.kernel.placement.instructions:
        role = next((role for role in case.program.roles if plain(role.name) == item.role), None)
        if item.kind == "wgmma" and role is not None:
            issuing.setdefault(item.role, role)
    if width is None or warps is None:
        return
    for name, role in issuing.items():
        threads = role.agents * role.threads
        if threads % (width * warps):
            headline = (
                f"role {quoted(name)} issues wgmma with {threads} threads; a warpgroup has "
                f"{width * warps}"
            )
            span = case.shapes[name].span if name in case.shapes else role.span
            yield case.fault("TTN416", headline, span, source="warps_per_warpgroup")
    if issuing:
        case.assume("the first warp of each warpgroup has a rank that is a multiple of 4")


@rule("TTN416", "warps_per_warpgroup", "threads_per_warp")
def warps_execute_alike(case: Case) -> Iterator[Diagnostic]:
    """All warps of a warpgroup execute its wgmma and setmaxnreg, in one order."""
    width, warps = case.limits.number("threads_per_warp"), case.limits.number("warps_per_warpgroup")
    if width is None or warps is None:
        return

    def collective(item: Operation) -> bool:
        if isinstance(item, Asynchronous):
            return case.queue_kind(item.queue) == "wgmma"
        return isinstance(item, PoolTake | PoolGive) and not case.is_tensor_pool(item.pool)

    for role in case.program.roles:
        together = width * warps // role.threads
        item = unlike_members(case.program, role, together, collective) if together > 1 else None
        if item is not None:
            does = "a product" if isinstance(item, Asynchronous) else "setmaxnreg"
            headline = f"some warps of a warpgroup of {quoted(plain(role.name))} execute {does}, "
            headline += "and others do not, or in another order"
            source = "PTX, wgmma.mma_async, setmaxnreg: executed by all warps of the warpgroup"
            yield case.fault("TTN416", headline, item.span, source=source)
            return


@rule("TTN406", "setmaxnreg")
def register_amounts(case: Case) -> Iterator[Diagnostic]:
    """setmaxnreg takes multiples of 8 from 24 to 256, where the target has it."""
    bounds = case.limits.numbers("setmaxnreg")
    if not case.nvidia or not case.limits.sources:
        return
    for role in case.own_roles:
        if role.registers and bounds is None:
            headline = (
                f"role {quoted(role.name)} requests {role.registers} registers; "
                f"{case.kernel.target} has no setmaxnreg"
            )
            yield case.fault("TTN406", headline, role.span, source="PTX, setmaxnreg: targets")
        elif role.registers and bounds is not None:
            low, high, step = bounds
            if role.registers % step or not low <= role.registers <= high:
                headline = (
                    f"role {quoted(role.name)} requests {role.registers} registers; setmaxnreg "
                    f"takes multiples of {step} from {low} to {high}"
                )
                yield case.fault("TTN406", headline, role.span, source="setmaxnreg")


def warpgroups(case: Case) -> tuple[Counter[int], int] | None:
    """Warpgroups by the registers that they ask for, and the fewest that the CTA has in all.

    All warps of a warpgroup execute the same setmaxnreg, so roles of single warps share one where
    they ask for the same, and fill one up otherwise. Roles of less than a warp that ask for nothing
    may be lanes of another role's warps, and are not counted.
    """
    width, warps = case.limits.number("threads_per_warp"), case.limits.number("warps_per_warpgroup")
    if width is None or warps is None:
        return None
    threads: Counter[int] = Counter()
    total = 0
    for role in case.own_roles:
        if role.threads % width and not role.registers:
            continue
        each = role.agents * role.threads
        total += round_up(each, width)
        if role.registers:
            threads[role.registers] += round_up(each, width)
    size = width * warps
    groups = Counter({number: -(-count // size) for number, count in threads.items()})
    return groups, max(sum(groups.values()), -(-total // size))


def registers_at_entry(case: Case, groups: int) -> int | None:
    """Registers a thread with which a CTA of `groups` warpgroups is launched."""
    width, warps = case.limits.number("threads_per_warp"), case.limits.number("warps_per_warpgroup")
    total, most = case.limits.number("registers_total"), case.limits.number("registers_entry_max")
    granule = case.limits.number("register_granule")
    if None in (width, warps, total, most, granule) or not groups:
        return None
    assert width and warps and total and most and granule
    return min(most, total // (groups * warps * width) // granule * granule)


@rule("TTN406", "registers_total", "register_granule")
def register_pool(case: Case) -> Iterator[Diagnostic]:
    """The final registers of all warpgroups are at most what they were launched with."""
    found = warpgroups(case)
    if found is None or not found[0]:
        return
    groups, number = found
    entry, granule = registers_at_entry(case, number), case.limits.number("register_granule")
    if entry is None or granule is None:
        return
    held = round_up(entry, granule)
    rest = number - sum(groups.values())
    needed = sum(amount * count for amount, count in groups.items()) + rest * held
    if needed > number * held:
        headline = (
            f"{number} warpgroups end with {needed} registers a thread in all; they begin with "
            f"{number} x {held} = {number * held}"
        )
        place = next((role.span for role in case.own_roles if role.registers), None)
        source = "registers_total"
        yield case.fault("TTN406", headline, place, source=source)


@rule("TTN419", "cluster_max")
def cluster_size(case: Case) -> Iterator[Diagnostic]:
    """A cluster has at most 16 CTAs, where the target has clusters."""
    most = case.limits.number("cluster_max")
    if most is not None and case.kernel.ctas > most:
        has = f"has at most {most}" if most > 1 else "has no clusters"
        headline = f"a cluster of {case.kernel.ctas} CTAs; {case.kernel.target} {has}"
        yield case.fault("TTN419", headline, case.kernel.span, source="cluster_max")


@rule("TTN423", "cluster_portable")
def portable_cluster(case: Case) -> Iterator[Diagnostic]:
    """More than 8 CTAs need the non-portable attribute."""
    most, limit = case.limits.number("cluster_portable"), case.limits.number("cluster_max")
    if most and limit and most < case.kernel.ctas <= limit:
        headline = f"a cluster of {case.kernel.ctas} CTAs; {most} are portable"
        yield case.fault("TTN423", headline, case.kernel.span, source="cluster_portable")


@rule("TTN425", "cluster_max")
def used_cta_runs_a_role(case: Case) -> Iterator[Diagnostic]:
    """A CTA that runs no role has ended when the others begin: nothing of it can be used."""
    running = {role.cta for role in case.program.roles}
    if case.program.policies.exit_in_flight == "allow" or running >= set(case.ctas):
        return
    reported = set()
    for role, item in case.operations:
        for name, home in _places(case, item):
            if home in running or home not in case.ctas or home in reported:
                continue
            reported.add(home)
            headline = f"CTA {home} runs no role and ends at once, and {quoted(plain(role.name))} "
            headline += f"uses {quoted(plain(name))} of it"
            helps = (f"give CTA {home} the roles that it runs, with a barrier before they end",)
            source = "CUDA programming guide, distributed shared memory: its CTA must exist"
            yield case.fault("TTN425", headline, item.span, source=source, helps=helps)


def _places(case: Case, item: Operation) -> Iterator[tuple[str, int]]:
    """The memory and mbarriers of CTAs that an operation names, each with its CTA."""
    for effect in effects_of(item):
        if case.space_of(effect) is not Space.GLOBAL:
            yield effect.buffer, case.homes[effect.buffer]
    homes = {barrier.name: barrier.cta for barrier in case.program.barriers}
    for reference in barriers_of(item):
        if reference.name in homes and case.is_mbarrier(reference.name):
            yield reference.name, homes[reference.name]
