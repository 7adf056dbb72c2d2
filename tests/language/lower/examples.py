"""Small protocols that the lowering and typestate tests share."""

from __future__ import annotations

from titan.language.protocol import model as m
from titan.sync.expression import Expression, parse_expression
from titan.sync.program import Buffer, Parameter, Space


def e(text: str | int) -> Expression:
    return parse_expression(str(text))


def tiles(value: int | None = None) -> tuple[Parameter, ...]:
    return (Parameter("tiles", value),)


def loop(stop: str, *body: m.Statement, variable: str = "t") -> m.For:
    return m.For(variable, e(0), e(stop), body)


def when(condition: str, *body: m.Statement) -> m.When:
    return m.When(e(condition), body)


def operands(index: str, ring: str = "operands") -> tuple[m.Operand, ...]:
    return (m.Operand(ring, e(index)),)


PRODUCER = m.ProtocolRole(
    "producer", (loop("tiles", m.Acquire("operands", e("t")), m.Produce("operands", e("t"))),)
)


def hopper_gemm(depth: int = 2, consumers: int = 2, target: str = "sm_90a") -> m.Protocol:
    """The warp-specialised GEMM main loop with one tensor-core group in flight."""
    consumer = (
        loop(
            "tiles",
            m.WaitReady("operands", e("t")),
            m.Issue(operands("t"), "group"),
            m.Drain("group", e(1)),
            when("t >= 1", m.Release("operands", e("t - 1"))),
        ),
        m.Drain("group"),
        when("tiles >= 1", m.Release("operands", e("tiles - 1"))),
    )
    return m.Protocol(
        "hopper_gemm",
        target,
        rings=(m.Ring("operands", ("A", "B"), depth, 49152),),
        roles=(PRODUCER, m.ProtocolRole("consumer", consumer, consumers, 128)),
        parameters=tiles(),
        buffers=(
            Buffer("A", depth, bytes_per_stage=16384),
            Buffer("B", depth, bytes_per_stage=32768),
        ),
    )


def blackwell_gemm(depth: int = 2) -> m.Protocol:
    """Bulk copies, one issuing warp, accumulators in two tensor-memory slots, an epilogue."""
    load = (
        loop(
            "tiles",
            loop(
                "2",
                m.Acquire("operands", e("2 * t + k")),
                m.Produce("operands", e("2 * t + k")),
                variable="k",
            ),
        ),
    )
    mma = (
        loop(
            "tiles",
            m.Acquire("accumulators", e("t")),
            loop(
                "2",
                m.WaitReady("operands", e("2 * t + k")),
                m.Issue(operands("2 * t + k"), "mma", accumulates=operands("t", "accumulators")),
                m.Release("operands", e("2 * t + k"), after="mma"),
                variable="k",
            ),
            m.Produce("accumulators", e("t")),
        ),
    )
    epilogue = (
        loop(
            "tiles",
            m.WaitReady("accumulators", e("t")),
            m.ReadStage("accumulators", e("t")),
            m.Release("accumulators", e("t")),
        ),
    )
    return m.Protocol(
        "blackwell_gemm",
        "sm_100a",
        rings=(
            m.Ring("operands", ("A", "B"), depth),
            m.Ring("accumulators", ("D",), 2, transport=m.Transport.MMA),
        ),
        roles=(
            m.ProtocolRole("load", load),
            m.ProtocolRole("mma", mma),
            m.ProtocolRole("epilogue", epilogue, 2),
        ),
        parameters=tiles(),
        buffers=(
            Buffer("A", depth, bytes_per_stage=16384),
            Buffer("B", depth, bytes_per_stage=16384),
            Buffer("D", 2, space=Space.TENSOR),
        ),
    )


def mi300_gemm(
    depth: int = 2, distance: int = 1, waves: int = 2, buffers: tuple[str, ...] = ("A",)
) -> m.Protocol:
    """All waves fill and read: tile t is copied `distance` steps before it is consumed."""
    time = m.For(
        "t",
        e(0),
        e(f"tiles + {distance}"),
        (
            when("t < tiles", m.Acquire("operands", e("t")), m.Produce("operands", e("t"))),
            when(
                f"t >= {distance}",
                m.WaitReady("operands", e(f"t - {distance}")),
                m.Issue(operands(f"t - {distance}"), "mfma"),
                m.Drain("mfma"),
                m.Release("operands", e(f"t - {distance}")),
            ),
        ),
    )
    return m.Protocol(
        "mi300_gemm",
        "gfx942",
        rings=(m.Ring("operands", buffers, depth, transport=m.Transport.LDS_DMA),),
        roles=(m.ProtocolRole("wave", (time,), waves, 64),),
        parameters=tiles(),
        buffers=tuple(Buffer(name, depth, bytes_per_stage=512 * waves) for name in buffers),
    )
