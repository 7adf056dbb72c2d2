"""Words for marks of cached proxies and of one-way fences (native/marks.c), where there are such.

A *domain* is a cached proxy in a CTA that uses it; where accesses may leave one for the async
proxy, that proxy in a CTA is a domain, too. Programs with neither have no such words at all.
"""

from __future__ import annotations

from titan.engines.explore.tables import DOMAINS_MAX, MARK_WORDS, Flat, TooLargeError
from titan.sync import program as ir

_ROWS = (*ir.CACHED, ir.Proxy.ASYNC)


def reaches(fence: ir.Fence, buffer: ir.Buffer, cta: int) -> bool:
    """Whether a fence that is executed in a CTA covers the buffer."""
    shared = buffer.space is ir.Space.SHARED
    if fence.kind is ir.FenceKind.ASYNC_RELEASE:
        return shared and buffer.cta == cta
    if fence.kind is ir.FenceKind.ASYNC_ACQUIRE:
        return shared
    return buffer.space in (fence.spaces or tuple(ir.Space))


def number_domains(flat: Flat) -> None:
    """Fill in the domains of the tables. Raises TooLargeError."""
    program = flat.program
    buffers = {buffer.name: buffer for buffer in program.buffers}
    used: dict[str, set[tuple[ir.Proxy, int]]] = {}
    releasing = False
    for role in program.roles:
        for operation in ir.walk(role.body):
            if isinstance(operation, ir.Fence):
                releasing = releasing or operation.kind is ir.FenceKind.ASYNC_RELEASE
            elif isinstance(operation, ir.Access | ir.Asynchronous):
                for effect in operation.effects:
                    buffer = buffers[effect.buffer]
                    places = {role.cta, *_home(buffer, effect)}
                    found = used.setdefault(buffer.storage or buffer.name, set())
                    if effect.proxy in _ROWS:
                        found |= {(effect.proxy, place) for place in places}
    used = {s: found for s, found in used.items() if any(p in ir.CACHED for p, _ in found)}
    if not used and not releasing:
        return
    _fill(flat, used)
    flat.mark_fields = MARK_WORDS
    if releasing:
        flat.mark_fields += 2 * (len(flat.agents) + 1)
        flat.issuers = sum(1 << agent.number for agent in flat.agents if _issues(agent.role))


def _home(buffer: ir.Buffer, effect: ir.Effect) -> tuple[int, ...]:
    """An asynchronous access happens in the CTA of the memory, if that belongs to one."""
    away = effect.proxy is ir.Proxy.ASYNC and buffer.space is not ir.Space.GLOBAL
    return (buffer.cta,) if away else ()


def _issues(role: ir.Role) -> bool:
    return any(
        effect.proxy is ir.Proxy.ASYNC
        for operation in ir.walk(role.body)
        if isinstance(operation, ir.Asynchronous)
        for effect in operation.effects
    )


def _fill(flat: Flat, used: dict[str, set[tuple[ir.Proxy, int]]]) -> None:
    program = flat.program
    ctas = [role.cta for role in program.roles] + [buffer.cta for buffer in program.buffers]
    flat.domain_ctas = 1 + max(ctas)
    flat.domains = [-1] * (len(_ROWS) * flat.domain_ctas)
    numbers = {
        domain: number for number, domain in enumerate(sorted(set().union(*used.values(), ())))
    }
    if len(numbers) > DOMAINS_MAX:
        raise TooLargeError("more proxies of CTAs than there is room for")
    for (proxy, cta), number in numbers.items():
        flat.domains[_ROWS.index(proxy) * flat.domain_ctas + cta] = number
    storages = {buffer.name: buffer.storage or buffer.name for buffer in program.buffers}
    for owners in flat.cell_buffers:
        row = [0, 0]
        for storage in {storages[name] for name in owners}:
            for proxy, cta in used.get(storage, ()):
                row[int(proxy is ir.Proxy.ASYNC)] |= 1 << numbers[(proxy, cta)]
        flat.cell_domains.append(row)


def lay_out_marks(flat: Flat) -> None:
    """The words of the cells, which of them are stored, and which are sets of agents."""
    flat.offsets["marks"] = len(flat.initial)
    for domains in flat.cell_domains or ([[0, 0]] * len(flat.cells) if flat.mark_fields else []):
        base = len(flat.initial)
        if any(domains):
            flat.live += range(base, base + MARK_WORDS)
            flat.masks += range(base, base + 6)
        flat.live += range(base + MARK_WORDS, base + flat.mark_fields)
        flat.initial += [0] * flat.mark_fields
