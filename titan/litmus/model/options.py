"""Which reading of the memory model a verdict uses; stated with every verdict."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class FenceRule(StrEnum):
    """Where a generic-to-async proxy fence has to stand.

    `WRITER_ALONE`: every thread that made generic accesses fences them itself, and that is enough
    wherever the asynchronous access happens. `PATH`: a fence anywhere on the causality path,
    executed in the CTA of the asynchronous access. Sources support either, and neither implies the
    other across CTAs; `WRITER`, the default, asks for what both accept: the writer's own fence, and
    a second one in the CTA of the access if that is another.
    """

    WRITER = "writer"
    WRITER_ALONE = "writer-alone"
    PATH = "path"


class WarPolicy(StrEnum):
    """Generic read, then asynchronous overwrite: `FENCE` asks for a fence, `SYNC` does not."""

    FENCE = "fence"
    SYNC = "sync"


class InitRule(StrEnum):
    """Publication of `mbarrier.init` to asynchronous and remote users.

    `SYNC`: any synchronisation that orders the initialisation, since barrier objects are used
    through the generic proxy. `FENCE`: the initialising thread must also fence it.
    """

    SYNC = "sync"
    FENCE = "fence"


class TensorRule(StrEnum):
    """What the arrival of a `tcgen05.commit` says of the operands that its products have read.

    `ORDER`: they are read, and a thread that waits may overwrite them through the generic proxy, as
    CUTLASS does and as `titan verify` takes it. `FENCE`: PTX has no sentence that says so, and a
    proxy fence is asked for.
    """

    ORDER = "order"
    FENCE = "fence"


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """The reading; `mutations` name rules that are dropped or weakened, for tests of the suite."""

    fence_rule: FenceRule = FenceRule.WRITER
    war: WarPolicy = WarPolicy.FENCE
    init: InitRule = InitRule.SYNC
    tensor: TensorRule = TensorRule.ORDER
    mutations: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return (
            f"fence rule {self.fence_rule}, war {self.war}, init {self.init}, tensor {self.tensor}"
        )
