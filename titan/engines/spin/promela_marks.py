"""Marks of cached proxies and of one-way fences as Promela statements on cell `c`.

For every cached proxy the agents whose reads (`inr`) and writes (`inw`) of the cell are inside; as
bits, the domains (a proxy in a CTA) that reads (`outr`) and writes (`outw`) outside have yet to
enter; by author (the engines last) who has yet to acquire what was released one way (`handr`,
`handw`). docs/explanation/proxies.md says what they mean. A program without such accesses or fences
has no such variables.
"""

from __future__ import annotations

from titan.engines.spin.names import ExportError
from titan.engines.spin.promela_layout import AgentLayout, PromelaLayout, fail
from titan.sync import program as ir
from titan.sync.fault import FaultKind
from titan.sync.parts import effects_of

DOMAINS_MAX = 30
_ROWS = (*ir.CACHED, ir.Proxy.ASYNC)


class Marks:
    """What the marks of one program are, and the statements that change them."""

    def __init__(self, layout: PromelaLayout) -> None:
        self.layout, self.p = layout, layout.prefix
        self._domains: dict[tuple[ir.Proxy, int], int] = {}
        self._cached: dict[str, int] = {}
        self._async: dict[str, int] = {}
        self.issuers = 0
        self.one_way = False
        self._find()
        self.authors = len(layout.agents) + 1

    def _find(self) -> None:
        used: dict[str, set[tuple[ir.Proxy, int]]] = {}
        for agent in self.layout.agents:
            for operation in ir.walk(agent.role.body):
                if isinstance(operation, ir.Fence):
                    self.one_way |= operation.kind is ir.FenceKind.ASYNC_RELEASE
                for effect in effects_of(operation):
                    buffer = self.layout.buffers[effect.buffer]
                    found = used.setdefault(buffer.storage or buffer.name, set())
                    asynchronous = effect.proxy is ir.Proxy.ASYNC
                    if asynchronous and isinstance(operation, ir.Asynchronous):
                        self.issuers |= 1 << agent.number
                    for cta in self._places(agent, effect):
                        found.add((effect.proxy, cta))
        for storage, found in used.items():
            if not any(proxy in ir.CACHED for proxy, _ in found):
                continue
            for domain in sorted(found):
                if domain[0] in _ROWS:
                    number = self._domains.setdefault(domain, len(self._domains))
                    table = self._async if domain[0] is ir.Proxy.ASYNC else self._cached
                    table[storage] = table.get(storage, 0) | 1 << number
        if len(self._domains) > DOMAINS_MAX:
            raise ExportError(f"more than {DOMAINS_MAX} proxies of CTAs")

    def _places(self, agent: AgentLayout, effect: ir.Effect) -> set[int]:
        """Where a fence for the access may be executed."""
        buffer = self.layout.buffers[effect.buffer]
        away = effect.proxy is ir.Proxy.ASYNC and buffer.space is not ir.Space.GLOBAL
        return {agent.role.cta, buffer.cta} if away else {agent.role.cta}

    @property
    def cached(self) -> bool:
        """Whether any domain of a cached proxy needs marks in this program."""
        return bool(self._domains)

    def declarations(self) -> list[str]:
        """Promela arrays of the marks; none where the program needs neither sort of mark."""
        p, cells = self.p, self.layout.cells
        lines = []
        if self.cached:
            names = [f"in{way}{n}" for way in "rw" for n in range(3)]
            lines += [f"int {p}{name}[{cells}];" for name in (*names, "outr", "outw")]
        if self.one_way:
            size = cells * self.authors
            lines += [f"int {p}handr[{size}]; int {p}handw[{size}];"]
        return lines

    # ---------------------------------------------------------------------------- memory

    def _of_cell(self, *tables: dict[str, int]) -> str:
        """The domains of cell `c`."""
        text = "0"
        for storage in self._cached:
            bits = 0
            for table in tables:
                bits |= table.get(storage, 0)
            low, high = self._extent(storage)
            text = f"(c >= {low} && c < {high} -> {bits} : {text})"
        return text

    def _extent(self, storage: str) -> tuple[int, int]:
        """The cells of a storage."""
        base = self.layout.storage_base[storage]
        units = [
            (buffer.offset, buffer.offset + buffer.stages * buffer.parts * buffer.units)
            for buffer in self.layout.program.buffers
            if (buffer.storage or buffer.name) == storage
        ]
        return base + min(low for low, _ in units), base + max(high for _, high in units)

    def outside(self, write: bool) -> str:
        """An access of the cell that no cache keeps."""
        if not self.cached:
            return ""
        at = f"{self.p}out{'w' if write else 'r'}[c]"
        return f"{at} = {at} | {self._of_cell(self._cached)};"

    def inside(self, agent: AgentLayout, effect: ir.Effect) -> str:
        """An access through a cached proxy."""
        at = f"{self.p}in{'w' if effect.write else 'r'}{_ROWS.index(effect.proxy)}[c]"
        return f"{at} = {at} | {1 << agent.number};"

    def check(self, agent: AgentLayout, effect: ir.Effect, asynchronous: bool) -> list[str]:
        """Whether an access does not see one that it conflicts with."""
        buffer = self.layout.buffers[effect.buffer]
        if (buffer.storage or buffer.name) not in self._cached:
            return []
        proxy = effect.proxy
        if not asynchronous and proxy not in ir.CACHED:
            proxy = ir.Proxy.GENERIC
        places = self._places(agent, effect) if asynchronous else {agent.role.cta}
        unseen = [self._unseen(proxy, cta, effect.write) for cta in sorted(places)]
        return [fail(" && ".join(f"({one})" for one in unseen), FaultKind.MISSING_CACHED_FENCE)]

    def _unseen(self, proxy: ir.Proxy, cta: int, write: bool) -> str:
        p, terms = self.p, []
        for number, other in enumerate(ir.CACHED):
            seen = self._agents_in(cta) if other is proxy else 0
            for way in "wr" if write else "w":
                terms.append(f"({p}in{way}{number}[c] & {~seen & self._everybody}) != 0")
        bit = self._bit(proxy, cta)
        for way in ("wr" if write else "w") if bit else "":
            terms.append(f"({p}out{way}[c] & {bit}) != 0")
        return " || ".join(terms)

    @property
    def _everybody(self) -> int:
        return (1 << len(self.layout.agents)) - 1

    def _agents_in(self, cta: int) -> int:
        return sum(1 << agent.number for agent in self.layout.agents if agent.role.cta == cta)

    def _bit(self, proxy: ir.Proxy, cta: int) -> int:
        number = self._domains.get((proxy, cta))
        return 0 if number is None else 1 << number

    def pending(self, agent: AgentLayout, write: bool) -> str:
        """Condition: the agent has yet to acquire some access of the cell."""
        name = f"{self.p}hand{'w' if write else 'r'}"
        found = [
            f"({name}[c * {self.authors} + {author}] & {1 << agent.number}) != 0"
            for author in range(self.authors if self.one_way else 0)
        ]
        return " || ".join(found) or "false"

    # ---------------------------------------------------------------------------- fences

    def covers(self, agent: AgentLayout, fence: ir.Fence, buffer: ir.Buffer) -> bool:
        """Whether a fence of the agent concerns the buffer: its space and, for a release, CTA."""
        shared = buffer.space is ir.Space.SHARED
        if fence.kind is ir.FenceKind.ASYNC_RELEASE:
            return shared and buffer.cta == agent.role.cta
        if fence.kind is ir.FenceKind.ASYNC_ACQUIRE:
            return shared
        return not fence.spaces or buffer.space in fence.spaces

    def fence(self, agent: AgentLayout, kind: ir.FenceKind, kept: int) -> str:
        """A fence on the cell; `kept`: the agents whose accesses it does not fence."""
        cta = agent.role.cta
        if kind in ir.CACHED_FENCES:
            return self._fence_domain(ir.CACHED_FENCES[kind], cta) if self.cached else "skip"
        parts = []
        if kind is ir.FenceKind.ASYNC:
            parts += self._enter(self._bit(ir.Proxy.ASYNC, cta))
        for author in range(self.authors if self.one_way else 0):
            parts += self._hand(agent, kind, author, kept)
        return "; ".join(parts) or "skip"

    def _hand(self, agent: AgentLayout, kind: ir.FenceKind, author: int, kept: int) -> list[str]:
        p, parts = self.p, []
        last = author == self.authors - 1
        bit = self.layout.engine_bit if last else 1 << author
        for way, marks in (("r", "readers"), ("w", "writers")):
            at = f"{p}hand{way}[c * {self.authors} + {author}]"
            if kind is ir.FenceKind.ASYNC_ACQUIRE:
                parts.append(f"{at} = {at} & {self._everybody & ~(1 << agent.number)}")
            elif kept & bit:
                continue
            elif kind is ir.FenceKind.ASYNC:
                parts.append(f"{at} = 0")
            else:
                held = f"({p}{marks}[c] & {bit}) != 0"
                parts.append(f"{at} = ({held} -> {at} | {self.issuers} : {at})")
        return parts

    def _enter(self, bit: int) -> list[str]:
        p, mask = self.p, (1 << DOMAINS_MAX) - 1 & ~bit
        return [f"{p}out{way}[c] = {p}out{way}[c] & {mask}" for way in "rw"] if bit else []

    def _fence_domain(self, proxy: ir.Proxy, cta: int) -> str:
        p, number, local = self.p, _ROWS.index(proxy), self._agents_in(cta)
        bit = self._bit(proxy, cta)
        others = f"({self._of_cell(self._cached, self._async)} & {(1 << DOMAINS_MAX) - 1 & ~bit})"
        parts = self._enter(bit)
        left = f"({p}inw{number}[c] & {local})"
        at = f"{p}map[c]"
        parts.append(f"{at} = ({left} == 0 -> {at} : ({at} == RELEASED -> {left} : {at} | {left}))")
        for way in "rw":
            here, out = f"{p}in{way}{number}[c]", f"{p}out{way}[c]"
            parts.append(f"{out} = (({here} & {local}) != 0 -> {out} | {others} : {out})")
            parts.append(f"{here} = {here} & {self._everybody & ~local}")
        return "; ".join(parts)
