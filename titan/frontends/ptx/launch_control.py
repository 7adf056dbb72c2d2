"""How many clusters clusterlaunchcontrol.try_cancel obtains.

A cluster that asks for another one gets it or not, depending on what has started meanwhile, so one
launch has several runs even where nothing else differs. Each number of clusters is tried as a
launch by itself: none, and some more in which rings of answers and of tiles come round.
"""

from __future__ import annotations

from dataclasses import replace

from titan.isa.ptx.module import Function, Module
from titan.isa.simt.launch import Launch

CANCELLED = (1, 2, 5)


def asks_for_clusters(module: Module, function: Function) -> bool:
    """Whether an instruction of the function, or of one that it may call, is a try_cancel."""
    return any(
        item.opcode == "clusterlaunchcontrol" and item.has("try_cancel")
        for body in module.functions
        if body is function or not body.entry
        for item in module.instructions[body.start : body.end]
    )


def with_more_clusters(
    module: Module, function: Function, launch: Launch, given: int | None = None
) -> list[tuple[str, Launch]]:
    """The launches in which each cluster that is run obtains some more, each with its label.

    `given`: how many the launch file says.
    """
    if not asks_for_clusters(module, function):
        return []
    wanted = CANCELLED if given is None else (given,)
    numbers = dict.fromkeys(min(number, launch.clusters - 1) for number in wanted)
    return [
        (f"{number} cancelled", replace(launch, cancelled=number)) for number in numbers if number
    ]
