"""Fences: which marks of which cells a proxy fence takes away; publishing initialisations.

Sources: PTX "membar/fence", "Async Proxy", "tensormap.cp_fenceproxy". The policy `fence_rule` says
for whom a fence of generic accesses counts: for those of its own agent and of engines ("writer"),
or for those of everybody, where the agent is in the CTA of the memory ("path").
"""

from __future__ import annotations

from titan.sync import program as ir
from titan.sync.control import Agent, ControlFlow
from titan.sync.memory_rules import cells_of
from titan.sync.proxy_marks import CacheDomains, fenced
from titan.sync.state import ENGINE, BarrierStatus, CellState, Draft


class FenceRules:
    """What proxy fences do to a draft state."""

    def __init__(self, control: ControlFlow, domains: CacheDomains) -> None:
        program = control.program
        self._domains = domains
        self._buffers = program.buffers
        self._path_rule = program.policies.fence_rule == "path"
        self._ctas = tuple(agent.role.cta for agent in control.agents)
        self._issuers = tuple(
            agent.number for agent in control.agents if _issues_async(agent.role, program)
        )

    def execute(self, draft: Draft, agent: Agent, operation: ir.Fence) -> None:
        """Execute a proxy fence on all memory of the spaces it names."""
        if operation.kind is ir.FenceKind.BARRIER_INIT:
            for key, barrier in draft.barriers.items():
                if barrier.status is BarrierStatus.UNPUBLISHED and barrier.owner == agent.number:
                    draft.barriers[key] = barrier._replace(status=BarrierStatus.USABLE)
            return
        for buffer in self._buffers:
            if not covers(operation, buffer, agent.role.cta):
                continue
            # By the path rule the fence must be executed in the CTA of the other proxy.
            near = buffer.space is ir.Space.GLOBAL or buffer.cta == agent.role.cta
            for stage in range(buffer.stages):
                for cell in cells_of(buffer, stage, None):
                    cell_state = draft.cells[cell]
                    cleared = frozenset({agent.number, ENGINE})
                    if self._path_rule and near:
                        cleared |= cell_state.writers | cell_state.readers | cell_state.authors
                        cleared |= {author for author, _, _ in cell_state.marks.released}
                    draft.cells[cell] = self._fenced(
                        cell_state, cell[0], operation.kind, agent, cleared
                    )

    def _fenced(
        self,
        cell_state: CellState,
        storage: str,
        kind: ir.FenceKind,
        agent: Agent,
        cleared: frozenset[int],
    ) -> CellState:
        """One cell after a proxy fence by `agent`, for the accesses of the agents `cleared`."""
        marks, cta = cell_state.marks, agent.role.cta
        match kind:
            case ir.FenceKind.ASYNC:
                released = frozenset(mark for mark in marks.released if mark[0] not in cleared)
                marks = marks._replace(released=released)
                marks, _ = fenced(marks, (ir.Proxy.ASYNC, cta), self._ctas, ())
                writers, readers = cell_state.writers - cleared, cell_state.readers - cleared
                return cell_state._replace(writers=writers, readers=readers, marks=marks)
            case ir.FenceKind.ASYNC_RELEASE:
                mine = {(author, True) for author in cell_state.writers & cleared}
                mine |= {(author, False) for author in cell_state.readers & cleared}
                pending = {(who, issuer, wrote) for who, wrote in mine for issuer in self._issuers}
                marks = marks._replace(released=marks.released | pending)
                writers, readers = cell_state.writers - cleared, cell_state.readers - cleared
                return cell_state._replace(writers=writers, readers=readers, marks=marks)
            case ir.FenceKind.ASYNC_ACQUIRE:
                pending = {mark for mark in marks.released if mark[1] != agent.number}
                return cell_state._replace(marks=marks._replace(released=frozenset(pending)))
            case ir.FenceKind.TENSORMAP_RELEASE:
                authors = cell_state.authors - cleared
                if not cell_state.authors:
                    return cell_state
                return cell_state._replace(authors=authors, released=not authors)
            case ir.FenceKind.TENSORMAP_ACQUIRE:
                return cell_state._replace(released=False)
        domains = self._domains.reaching(storage)
        marks, left = fenced(marks, (ir.CACHED_FENCES[kind], cta), self._ctas, domains)
        if left:  # a write that has left its cache is one to be released for the tensormap proxy
            return cell_state._replace(
                marks=marks, authors=cell_state.authors | left, released=False
            )
        return cell_state._replace(marks=marks)


def covers(fence: ir.Fence, buffer: ir.Buffer, cta: int) -> bool:
    """Whether a fence executed in a CTA acts on the memory of the buffer."""
    if fence.kind is ir.FenceKind.ASYNC_RELEASE:
        return buffer.space is ir.Space.SHARED and buffer.cta == cta
    if fence.kind is ir.FenceKind.ASYNC_ACQUIRE:
        return buffer.space is ir.Space.SHARED
    return not fence.spaces or buffer.space in fence.spaces


def _issues_async(role: ir.Role, program: ir.SyncProgram) -> bool:
    """Whether a one-way release of the program is for agents of the role, too."""
    halves = any(
        isinstance(operation, ir.Fence) and operation.kind is ir.FenceKind.ASYNC_RELEASE
        for other in program.roles
        for operation in ir.walk(other.body)
    )
    return halves and any(
        effect.proxy is ir.Proxy.ASYNC
        for operation in ir.walk(role.body)
        if isinstance(operation, ir.Asynchronous)
        for effect in operation.effects
    )
