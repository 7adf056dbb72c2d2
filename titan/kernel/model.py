"""A decoded kernel: what the file says for one choice of its sizes. Data only."""

from __future__ import annotations

from dataclasses import dataclass, field

from titan.protocol.model import Protocol
from titan.source.span import Span
from titan.sync.program import SyncProgram


@dataclass(frozen=True, slots=True)
class Allowance:
    """A warning that the author accepts, and why."""

    rule: str
    reason: str
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class RoleShape:
    """How many agents of how many threads a role is, for the scope of a verdict."""

    name: str
    agents: int
    threads: int
    registers: int = 0
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel with concrete numbers for its sizes; exactly one level is not None.

    `sizes` are the numbers chosen, in the order of the file; parameters (`any`) are not among them.
    """

    name: str
    target: str
    path: str
    sizes: tuple[tuple[str, int], ...]
    roles: tuple[RoleShape, ...]
    protocol: Protocol | None = None
    program: SyncProgram | None = None
    note: str = ""
    source: str = ""
    ctas: int = 1
    swizzles: tuple[tuple[str, str], ...] = ()
    allowances: tuple[Allowance, ...] = ()
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Family:
    """All kernels that one file stands for: one for every combination of its sizes."""

    name: str
    path: str
    kernels: tuple[Kernel, ...]
