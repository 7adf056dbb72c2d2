"""Counted waits in terms of stages: what `vmcnt(8)` leaves in flight, as virtual tokens.

A wait that is executed again and again with the same number of operations in between is the wait of
a stage of so many operations; the youngest stages are what it leaves in flight
(docs/explanation/virtual_tokens.md).
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from titan.foundation.diagnostics.wording import counted
from titan.isa.simt.outcome import Run
from titan.isa.waves.events import CounterFull, CounterWait, OperationIssued, WaveQueue

COUNTERS = {
    WaveQueue.VECTOR: "vmcnt",
    WaveQueue.LDS: "lgkmcnt",
    WaveQueue.SCALAR: "lgkmcnt",
    WaveQueue.FLAT_LDS: "lgkmcnt",
    WaveQueue.FLAT_GLOBAL: "vmcnt",
}
# Whose counted waits are reported as stages: copies, and loads where one counter has all.
_STAGED = {
    WaveQueue.VECTOR: "vmcnt({})",
    WaveQueue.ASYNC_LOADS: "asynccnt {}",
    WaveQueue.TENSOR: "tensorcnt {}",
}


def token_text(queue: WaveQueue, pending: int) -> str:
    """`s_waitcnt vmcnt(8)`."""
    if queue in COUNTERS:
        return f"s_waitcnt {COUNTERS[queue]}({pending})"
    if queue is WaveQueue.BY_CACHE:
        return "a wait for loads or stores"
    return f"s_wait_{queue.partition(' ')[0]} {pending}"


def stage_texts(run: Run) -> dict[int, str]:
    """By instruction, what each counted wait for vector memory leaves in flight, in words."""
    issued = dict.fromkeys(_STAGED, 0)
    seen: dict[tuple[int, WaveQueue], list[tuple[int, int]]] = {}
    first = min((event.warp for event in run.events), default=0)
    for event in run.events:
        if event.warp != first:
            continue
        if isinstance(event, OperationIssued) and event.queue in _STAGED:
            issued[event.queue] += 1
        elif isinstance(event, CounterFull):
            continue
        elif isinstance(event, CounterWait) and issued.get(event.queue) and event.pending:
            key = event.instruction, event.queue
            seen.setdefault(key, []).append((issued[event.queue], event.pending))
    return {
        instruction: _text([at for at, _ in places], places[0][1], _STAGED[queue])
        for (instruction, queue), places in seen.items()
    }


def _text(issued: list[int], pending: int, counter: str) -> str:
    steps = Counter(b - a for a, b in pairwise(issued))
    stage = steps.most_common(1)[0][0] if steps else 0
    head = f"{counter.format(pending)} waits for all but "
    if stage <= 0 or pending % stage:
        return head + f"the youngest {counted(pending, 'operation')}"
    stages = pending // stage
    youngest = "the youngest stage" if stages == 1 else f"the youngest {stages} stages"
    return head + f"{youngest} ({counted(stage, 'operation')} a stage)"
