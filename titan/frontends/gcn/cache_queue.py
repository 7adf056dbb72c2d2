"""Loads and stores of gfx1250 as one queue of the sync program.

Two counters count them, and accesses of one wave to the same bytes keep their order all the same
(compilers wait for none of them in between). So they are one queue in the order of issue, of which
a wait ends what it is known to end from the oldest on: a load behind a store that is in flight
counts as in flight. That can keep an access longer than it takes, never end it too early.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from titan.isa.simt.events import Event
from titan.isa.waves.events import BY_CACHE_GFX1250, CounterWait, OperationIssued, WaveQueue


def in_one_queue(events: Sequence[Event]) -> list[Event]:
    """The events of one wave with one queue for all that goes through the vector cache."""
    found: list[Event] = []
    queues: list[WaveQueue] = []  # of each operation
    numbers: list[int] = []
    issued = dict.fromkeys(BY_CACHE_GFX1250, 0)
    done = dict.fromkeys(BY_CACHE_GFX1250, 0)
    over = 0
    for event in events:
        match event:
            case OperationIssued(queue=queue) if queue in BY_CACHE_GFX1250:
                queues.append(queue)
                numbers.append(issued[queue])
                issued[queue] += 1
                found.append(replace(event, queue=WaveQueue.BY_CACHE, number=len(queues) - 1))
            case CounterWait(queue=queue, pending=pending) if queue in BY_CACHE_GFX1250:
                done[queue] = max(done[queue], issued[queue] - pending)
                before = over
                while over < len(queues) and numbers[over] < done[queues[over]]:
                    over += 1
                if over > before:
                    left = len(queues) - over
                    found.append(replace(event, queue=WaveQueue.BY_CACHE, pending=left))
            case _:
                found.append(event)
    return found
