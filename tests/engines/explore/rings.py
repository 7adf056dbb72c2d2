"""Hand-written pipelines with open sizes, and what can be wrong with them."""

from __future__ import annotations

from tests.building import ASYNC, Body, at, e, loop, program, read, write
from titan.sync import program as ir

MISTAKES = ("drain", "release", "parity", "index", "count", "tile", "bytes", "acquire", "guard")


def ring(
    depth: int, consumers: int, lag: bool = True, phases: bool = True, mistake: str = ""
) -> ir.SyncProgram:
    """Bulk loads into `depth` stages, consumers with wgmma-like groups, any number of tiles."""
    stage = f"t % {depth}"
    count = consumers - 1 if mistake == "count" and consumers > 1 else consumers
    size = 64 if mistake == "bytes" else 128
    acquire = _wait("empty", "t", depth, -1, phases)
    load = ir.Asynchronous(
        (write("tile", stage, "t", proxy=ASYNC),), None, (ir.Completion(at("full", stage), e(128)),)
    )
    fill: Body = [] if mistake == "acquire" else [acquire]
    fill += [ir.Arrive(at("full", stage), transaction=e(size)), load]
    last = "tiles - 1" if mistake == "guard" else "tiles"
    return program(
        "ring",
        [
            ir.Role("producer", (loop("t", last, fill),), 1, 1),
            ir.Role("consumer", _consumer(depth, lag, phases, mistake), consumers, 1),
        ],
        parameters=[ir.Parameter("tiles")],
        barriers=[ir.Barrier("full", 1, depth), ir.Barrier("empty", count, depth)],
        buffers=[ir.Buffer("tile", depth)],
        queues=[ir.Queue("group", True, True, True)],
    )


def _wait(name: str, counter: str, depth: int, offset: int, phases: bool) -> ir.Wait:
    parity = e(f"({counter} // {depth} + {offset % 2}) % 2")
    meant = e(f"{counter} // {depth} + {offset}") if phases else None
    return ir.Wait(at(name, f"{counter} % {depth}"), parity, meant)


def _consumer(depth: int, lag: bool, phases: bool, mistake: str) -> ir.Block:
    stage = f"(t + 1) % {depth}" if mistake == "index" else f"t % {depth}"
    meant = "t + 1" if mistake == "tile" else "t"
    take = _wait("full", "t", depth, 1 if mistake == "parity" else 0, phases)
    mma = ir.Asynchronous((read("tile", stage, meant, proxy=ASYNC),), "group")
    body: Body = [take, mma, ir.Commit("group")]
    if not lag:
        body += [] if mistake == "drain" else [ir.QueueWait("group")]
        body += [] if mistake == "release" else [ir.Arrive(at("empty", f"t % {depth}"))]
        return (loop("t", "tiles", body), ir.QueueWait("group"))
    body += [] if mistake == "drain" else [ir.QueueWait("group", e(1))]
    earlier = ir.Arrive(at("empty", f"(t - 1) % {depth}"))
    body += [] if mistake == "release" else [ir.Branch(e("t >= 1"), (earlier,))]
    final = ir.Arrive(at("empty", f"(tiles - 1) % {depth}"))
    return (
        loop("t", "tiles", body),
        ir.QueueWait("group"),
        ir.Branch(e("tiles >= 1"), (final,)),
    )


def persistent(
    depth: int, consumers: int, phases: bool = True, mistake: str = "", least: int = 1
) -> ir.SyncProgram:
    """Work items with a number of k-tiles of their own; a running counter numbers the stages."""
    stage, following = f"it % {depth}", ir.Assign("it", e("it + 1"))
    load = ir.Asynchronous(
        (write("tile", stage, "it", proxy=ASYNC),),
        None,
        (ir.Completion(at("full", stage), e(128)),),
    )
    fill: Body = [] if mistake == "acquire" else [_wait("empty", "it", depth, -1, phases)]
    fill += [ir.Arrive(at("full", stage), transaction=e(128)), load, following]
    take = _wait("full", "it", depth, 1 if mistake == "parity" else 0, phases)
    meant = "it + 1" if mistake == "tile" else "it"
    mma = ir.Asynchronous((read("tile", stage, meant, proxy=ASYNC),), "group")
    use: Body = [take, mma, ir.Commit("group")]
    use += [] if mistake == "drain" else [ir.QueueWait("group")]
    use += [] if mistake == "release" else [ir.Arrive(at("empty", stage))]
    use += [following]
    last = "k_tiles - 1" if mistake == "guard" else "k_tiles"
    counter = (("it", 0),)
    return program(
        "persistent",
        [
            ir.Role("producer", (loop("w", "work", [loop("k", last, fill)]),), 1, 1,
                    variables=counter),
            ir.Role("consumer", (loop("w", "work", [loop("k", "k_tiles", use)]),), consumers, 1,
                    variables=counter),
        ],
        parameters=[ir.Parameter("work"), ir.Parameter("k_tiles", None, least, "w")],
        barriers=[ir.Barrier("full", 1, depth), ir.Barrier("empty", consumers, depth)],
        buffers=[ir.Buffer("tile", depth)],
        queues=[ir.Queue("group", True, True, True)],
    )  # fmt: skip
