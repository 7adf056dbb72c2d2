"""A persistent ping-pong attention kernel in the manner of FlashAttention-3, as a sync program.

One producer warp loads Q, K and V by bulk copies; two consumer warpgroups of four warps each take
turns at the tensor core through two named barriers; every warp issues its share of both products
and releases K and V one arrival a warp. The epilogue passes the output through shared memory to a
store warp. Depths, work tiles and K/V blocks are numbers to choose.
"""

from __future__ import annotations

from dataclasses import dataclass

from titan.sync import program as ir
from titan.sync.expression import Expression, parse_expression

WARP = 32


@dataclass(frozen=True, slots=True)
class Shape:
    """`blocks` K/V blocks in each of `work_tiles` tiles; `warps` consumer warps a warpgroup."""

    work_tiles: int = 2
    blocks: int = 4
    depth: int = 2
    warpgroups: int = 2
    warps: int = 4

    @property
    def consumers(self) -> int:
        return self.warpgroups * self.warps


def ping_pong_attention(shape: Shape) -> ir.SyncProgram:
    """The kernel; correct as written."""
    consumers, depth = shape.consumers, shape.depth
    barriers = (
        ir.Barrier("q_full", 1),
        ir.Barrier("q_empty", consumers),
        ir.Barrier("k_full", 1, depth),
        ir.Barrier("k_empty", consumers, depth),
        ir.Barrier("v_full", 1, depth),
        ir.Barrier("v_empty", consumers, depth),
        ir.Barrier("out_full", consumers),
        ir.Barrier("out_empty", 1),
    )
    buffers = (
        ir.Buffer("Q", parts=consumers),
        ir.Buffer("K", depth),
        ir.Buffer("V", depth),
        ir.Buffer("O", parts=consumers),
        ir.Buffer("S", parts=consumers, space=ir.Space.REGISTER),
        ir.Buffer("P", parts=consumers, space=ir.Space.REGISTER),
        ir.Buffer("accumulator", parts=consumers, space=ir.Space.REGISTER),
        ir.Buffer("result", parts=consumers, space=ir.Space.GLOBAL),
    )
    roles = (
        ir.Role("producer", _producer(shape), variables=(("n", 0),)),
        ir.Role("store", _store(shape)),
        ir.Role("consumer", _consumer(shape), agents=consumers, variables=(("n", 0),)),
    )
    return ir.SyncProgram(
        "ping_pong_attention",
        "sm_90a",
        roles,
        barriers=barriers,
        named_barriers=(ir.NamedBarrier("turn", shape.warpgroups),),
        buffers=buffers,
        queues=(ir.Queue("wgmma", pipelined=True), ir.Queue("bulk")),
    )


def _e(text: str | int) -> Expression:
    return parse_expression(str(text))


def _at(name: str, index: str | int = 0) -> ir.Reference:
    return ir.Reference(name, _e(index))


def _wait(name: str, lap: str, index: str | int = 0) -> ir.Wait:
    """Wait for phase `lap` of a barrier; -1 is over before the start."""
    return ir.Wait(_at(name, index), _e(f"({lap}) % 2"), _e(lap))


def _load(buffer: str, barrier: str, stage: str, tile: str, size: int) -> tuple[ir.Operation, ...]:
    write = ir.Effect(buffer, _e(stage), True, _e(tile), None, ir.Proxy.ASYNC)
    full = _at(barrier, stage)
    return (
        ir.Arrive(full, transaction=_e(size)),
        ir.Asynchronous((write,), None, (ir.Completion(full, _e(size)),)),
    )


def _producer(shape: Shape) -> ir.Block:
    stage, lap = f"n % {shape.depth}", f"n // {shape.depth}"
    block: ir.Block = (
        _wait("k_empty", f"{lap} - 1", stage),
        *_load("K", "k_full", stage, "n", 32768),
        _wait("v_empty", f"{lap} - 1", stage),
        *_load("V", "v_full", stage, "n", 32768),
        ir.Assign("n", _e("n + 1")),
    )
    tile: ir.Block = (
        _wait("q_empty", "w - 1"),
        *_load("Q", "q_full", "0", "w", 65536),
        ir.Loop("j", _e(0), _e(shape.blocks), block),
    )
    return (ir.Loop("w", _e(0), _e(shape.work_tiles), tile),)


def _store(shape: Shape) -> ir.Block:
    tile: ir.Block = (
        _wait("out_full", "w"),
        ir.Asynchronous(
            (
                ir.Effect("O", tile=_e("w"), proxy=ir.Proxy.ASYNC),
                ir.Effect("result", write=True, tile=_e("w"), proxy=ir.Proxy.ASYNC),
            ),
            "bulk",
        ),
        ir.Commit("bulk"),
        ir.QueueWait("bulk", _e(0)),
        ir.Arrive(_at("out_empty")),
    )
    return (ir.Loop("w", _e(0), _e(shape.work_tiles), tile),)


def _consumer(shape: Shape) -> ir.Block:
    stage, lap = f"n % {shape.depth}", f"n // {shape.depth}"
    group = f"self // {shape.warps}"
    turn = f"({group})" if shape.warpgroups > 1 else "0"
    after = f"({group} + 1) % {shape.warpgroups}"
    threads = _e(shape.warps * WARP * 2)
    own = _e("self")

    def share(buffer: str, at: str = "0", write: bool = False, tile: str = "n") -> ir.Effect:
        proxy = ir.Proxy.ASYNC if buffer == "Q" else ir.Proxy.GENERIC
        return ir.Effect(buffer, _e(at), write, _e(tile), own, proxy)

    def operand(buffer: str) -> ir.Effect:
        return ir.Effect(buffer, _e(stage), False, _e("n"), None, ir.Proxy.ASYNC)

    def product(*effects: ir.Effect) -> ir.Block:
        return (
            ir.Asynchronous(effects, "wgmma"),
            ir.Commit("wgmma"),
            ir.QueueWait("wgmma", _e(0)),
        )

    block: ir.Block = (
        _wait("k_full", lap, stage),
        ir.BarrierSync(_at("turn", turn), threads),
        *product(share("Q", tile="w"), operand("K"), share("S", write=True)),
        ir.BarrierArrive(_at("turn", after), threads),
        ir.Arrive(_at("k_empty", stage)),
        ir.Access((share("S"), share("P", write=True))),
        _wait("v_full", lap, stage),
        *product(share("P"), operand("V"), share("accumulator", write=True)),
        ir.Arrive(_at("v_empty", stage)),
        ir.Assign("n", _e("n + 1")),
    )
    last = f"{shape.work_tiles} * {shape.blocks} - 1"
    tile: ir.Block = (
        _wait("q_full", "w"),
        ir.Loop("j", _e(0), _e(shape.blocks), block),
        ir.Arrive(_at("q_empty")),
        _wait("out_empty", "w - 1"),
        ir.Access((share("accumulator", tile="n - 1"), share("O", write=True, tile="w"))),
        ir.Fence(ir.FenceKind.ASYNC, (ir.Space.SHARED,)),
        ir.Arrive(_at("out_full")),
    )
    first = ir.Branch(_e(f"{group} == 1"), (ir.BarrierArrive(_at("turn", 0), threads),))
    # The first warpgroup gives the turn once more than the second takes it: take it at the end.
    rest = ir.Branch(
        _e(f"{group} == 0 and {last} >= 0"), (ir.BarrierSync(_at("turn", 0), threads),)
    )
    return (first, ir.Loop("w", _e(0), _e(shape.work_tiles), tile), rest)
