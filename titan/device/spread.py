"""Work over several GPUs: each takes the next item when it is free; with one, or none, in order.

A child process sees exactly one device (`CUDA_VISIBLE_DEVICES`), so nothing that it does can reach
another. Timings are not spread: GPUs of one machine share its power and its host.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from titan.device.records import DeviceFacts
from titan.device.watchdog import VISIBLE

Item = TypeVar("Item")
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class _Failed:
    """A worker ended with this error."""

    error: Exception


class _Over:
    """A worker has nothing more to do."""


def devices(facts: DeviceFacts) -> list[str]:
    """The devices to use, as children are to see them: those like the first. Empty without GPUs."""
    names = list(facts.get("names", ()))
    if facts.get("backend") != "gpu" or len(names) < 2:
        return []
    given = [part.strip() for part in os.environ.get(VISIBLE, "").split(",") if part.strip()]
    known = given if len(given) >= len(names) else [str(number) for number in range(len(names))]
    return [known[number] for number, name in enumerate(names) if name == names[0]]


def spread(
    items: Iterable[Item],
    run: Callable[[Item, str | None], Iterator[Found]],
    places: Sequence[str] = (),
) -> Iterator[Found]:
    """What `run(item, device)` finds, as it comes; an error of one ends all, and is raised here."""
    if len(places) < 2:
        for item in items:
            yield from run(item, places[0] if places else None)
        return
    waiting: queue.SimpleQueue[Item] = queue.SimpleQueue()
    for item in items:
        waiting.put(item)
    found: queue.SimpleQueue[Found | _Over | _Failed] = queue.SimpleQueue()
    stop = threading.Event()

    def work(place: str) -> None:
        try:
            while not stop.is_set():
                try:
                    item = waiting.get_nowait()
                except queue.Empty:
                    break
                for one in run(item, place):
                    found.put(one)
                    if stop.is_set():
                        break
        except Exception as error:  # raised where the results are read
            found.put(_Failed(error))
        finally:
            found.put(_Over())

    workers = [threading.Thread(target=work, args=(place,), daemon=True) for place in places]
    for worker in workers:
        worker.start()
    left = len(workers)
    try:
        while left:
            value = found.get()
            if isinstance(value, _Over):
                left -= 1
            elif isinstance(value, _Failed):
                raise value.error
            else:
                yield value
    finally:
        stop.set()
