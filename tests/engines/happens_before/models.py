"""Small models of published bugs, each in a buggy and a fixed version, as sync programs.

`real_bugs.json` holds them in one line a role: `wait BARRIER PARITY`, `arrive BARRIER`,
`arrive_expecting BARRIER BYTES`, `write BUFFER TILE`, `async QUEUE PROXY r:BUFFER:TILE tx:BARRIER:
BYTES` and so on. Every buffer is one piece, and what is in flight at the exit is nobody's concern.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.building import at, e, read, write
from titan.sync import program as ir


@dataclass(frozen=True, slots=True)
class Model:
    name: str
    refuted: bool
    program: ir.SyncProgram


def models() -> Iterator[Model]:
    """Every version of every case."""
    cases = json.loads(Path(__file__).with_name("real_bugs.json").read_text())
    for case in cases:
        for version, given in case["versions"].items():
            name = f"{case['case']}-{version}"
            yield Model(name, given["verdict"] == "refuted", _program(name, case, given))


def _program(name: str, case: dict[str, Any], given: dict[str, Any]) -> ir.SyncProgram:
    counts = given["barriers"]
    words = [line.split() for lines in given["roles"].values() for line in lines]
    queues = {word[1] for word in words if word[0] in ("async", "queue_wait", "queue_arrive")}
    roles = tuple(
        ir.Role(role, tuple(_operation(line.split(), counts) for line in lines), threads=1)
        for role, lines in given["roles"].items()
    )
    return ir.SyncProgram(
        name,
        "sm_90a",
        roles,
        barriers=tuple(
            ir.Barrier(barrier, count, initialised=barrier not in case.get("uninitialised", ()))
            for barrier, count in counts.items()
        ),
        named_barriers=(ir.NamedBarrier("bar", 16),),
        buffers=tuple(ir.Buffer(buffer, initial=tile) for buffer, tile in case["buffers"].items()),
        queues=tuple(
            ir.Queue(queue, grouped=False, pipelined=queue.startswith("m"))
            for queue in sorted(queues - {"-"})
        ),
        pools=(ir.Pool("registers", case.get("registers", 0)),),
        policies=ir.Policies(exit_in_flight="allow"),
    )


def _operation(words: list[str], counts: dict[str, int]) -> ir.Operation:
    verb, *rest = words
    first = rest[0] if rest else ""
    number = e(int(rest[-1])) if rest and rest[-1].lstrip("-").isdigit() else e(0)
    match verb:
        case "wait":
            return ir.Wait(at(first), number)
        case "arrive":
            return ir.Arrive(at(first))
        case "arrive_expecting":
            return ir.Arrive(at(first), transaction=number)
        case "expect":
            return ir.ExpectTransaction(at(first), number)
        case "init":
            return ir.Init(at(first), e(counts[first]))
        case "publish":
            return ir.Fence(ir.FenceKind.BARRIER_INIT)
        case "fence":
            return ir.Fence(ir.FenceKind.ASYNC)
        case "write":
            return ir.Access((write(first, tile=int(rest[1])),))
        case "read":
            return ir.Access((read(first, tile=int(rest[1])),))
        case "async":
            return _asynchronous(rest)
        case "queue_wait":
            return ir.QueueWait(first, number)
        case "queue_arrive":
            return ir.QueueArrive(first, at(rest[1]))
        case "sync":
            return ir.BarrierSync(at("bar", int(first)), number)
        case "sync_arrive":
            return ir.BarrierArrive(at("bar", int(first)), number)
        case "take":
            return ir.PoolTake("registers", number)
        case "give":
            return ir.PoolGive("registers", number)
        case "nop":
            return ir.Assign("nothing", e(0))
    raise ValueError(f"unknown operation {verb!r}")


def _asynchronous(rest: list[str]) -> ir.Asynchronous:
    queue, proxy, *parts = rest
    fields = [part.split(":") for part in parts]
    effects = tuple(
        (write if kind == "w" else read)(name, tile=int(value), proxy=ir.Proxy(proxy))
        for kind, name, value in fields
        if kind != "tx"
    )
    completes = tuple(
        ir.Completion(at(name), e(int(value))) for kind, name, value in fields if kind == "tx"
    )
    return ir.Asynchronous(effects, None if queue == "-" else queue, completes)
