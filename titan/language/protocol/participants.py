"""How many agents fill and free a stage, where the ring does not say: counted in small runs.

The count is a reading of the program, not a proof. Lowering and typestate use the same one, and
an index at which fewer take part is then found to be a missing arrival.
"""

from __future__ import annotations

from titan.language.protocol import model
from titan.language.protocol.unroll import Sizes, UnrollError

PROBE_DEPTH_MAX = 8


def probe_sizes(protocol: model.Protocol) -> list[Sizes]:
    """A few small settings of all open parameters: enough for the ring to go round."""
    depth = max((ring.depth for ring in protocol.rings), default=1)
    free = [parameter for parameter in protocol.parameters if parameter.value is None]
    if not free:
        return [{}]
    levels = (1, 2, 2 * min(depth, PROBE_DEPTH_MAX) + 1)
    return [
        {parameter.name: max(parameter.minimum, level) for parameter in free} for level in levels
    ]


def participants(protocol: model.Protocol) -> tuple[dict[str, int], dict[str, int]]:
    """Arrivals that fill, and that free, a stage of each ring. Raises UnrollError."""
    from titan.language.protocol.tokens import TokenRun

    ready: dict[str, int] = {}
    free: dict[str, int] = {}
    reasons: list[str] = []
    runs = []
    for sizes in probe_sizes(protocol):
        try:
            runs.append(TokenRun(protocol, sizes))
        except UnrollError as error:
            reasons.append(str(error))
    if not runs:
        raise UnrollError("; ".join(reasons))
    for run in runs:
        for ring in protocol.rings:
            ready[ring.name] = max(ready.get(ring.name, 0), run.ready[ring.name])
            free[ring.name] = max(free.get(ring.name, 0), run.free[ring.name])
    return ready, free
