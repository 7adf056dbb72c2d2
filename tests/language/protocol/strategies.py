"""Random protocols: right ones, and slips of them, in several shapes."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.language.lower.examples import e, loop, operands, when
from titan.language.protocol import model as m
from titan.sync.program import Buffer, Parameter, Space

TRANSPORTS = (m.Transport.BULK, m.Transport.STORE, m.Transport.ASYNC_COPY)


@st.composite
def slips(draw: st.DrawFn, body: list[m.Statement]) -> tuple[m.Statement, ...]:
    """A body as it is, or with one statement left out, doubled, or two changed round."""
    kind = draw(st.sampled_from(["keep"] * 12 + ["drop", "double", "swap"]))
    body = list(body)
    if not body or kind == "keep":
        return tuple(body)
    place = draw(st.integers(0, len(body) - 1))
    if kind == "drop":
        del body[place]
    elif kind == "double":
        body.insert(place, body[place])
    else:
        other = draw(st.integers(0, len(body) - 1))
        body[place], body[other] = body[other], body[place]
    return tuple(body)


@st.composite
def index(draw: st.DrawFn, name: str) -> str:
    """Mostly the loop variable itself."""
    return draw(st.sampled_from([name] * 24 + [f"{name} + 1", f"{name} - 1", f"2 * {name}"]))


@st.composite
def stops(draw: st.DrawFn) -> str:
    return draw(st.sampled_from(["tiles"] * 24 + ["tiles - 1", "tiles + 1", "2 * tiles"]))


@st.composite
def guards(draw: st.DrawFn, body: tuple[m.Statement, ...]) -> tuple[m.Statement, ...]:
    """Sometimes the whole body stands under a guard."""
    condition = draw(
        st.sampled_from([""] * 24 + ["t >= 1", "t + 1 < tiles", "t < tiles", "t % 2 == 0"])
    )
    return (when(condition, *body),) if condition else body


@st.composite
def consumers(draw: st.DrawFn) -> tuple[m.Statement, ...]:
    """Plain readers, drained tensor-core readers, and ones that leave groups in flight."""
    kind = draw(st.sampled_from(["plain", "drained", "lagging", "after"]))
    at = draw(index("t"))
    stop = draw(stops())
    wait = m.WaitReady("operands", e(at))
    issue = m.Issue(operands(at), "group")
    if kind == "plain":
        body = [wait, m.ReadStage("operands", e(at)), m.Release("operands", e(at))]
        tail: list[m.Statement] = []
    elif kind == "after":
        body = [wait, issue, m.Release("operands", e(at), after="group")]
        tail = [m.Drain("group")]
    elif kind == "drained":
        leaving = draw(st.sampled_from([0, 0, 0, 1]))
        body = [wait, issue, m.Drain("group", e(leaving)), m.Release("operands", e(at))]
        tail = [m.Drain("group")] if draw(st.booleans()) else []
    else:
        lag = draw(st.integers(1, 2))
        leaving = draw(st.sampled_from([lag, lag, lag, lag + 1, 0]))
        body = [
            wait,
            issue,
            m.Drain("group", e(leaving)),
            when(f"t >= {lag}", m.Release("operands", e(f"t - {lag}"))),
        ]
        tail = [m.Drain("group")] + [
            when(f"tiles >= {back}", m.Release("operands", e(f"tiles - {back}")))
            for back in range(lag, 0, -1)
        ]
    inner = draw(guards(draw(slips(body))))
    return (loop(stop, *inner), *draw(slips(tail)))


@st.composite
def split(draw: st.DrawFn) -> m.Protocol:
    """A filling and a reading role; depth 1 to 3; agents 1 or 2 on each side."""
    depth = draw(st.integers(1, 3))
    at = draw(index("t"))
    fill = [m.Acquire("operands", e(at)), m.Produce("operands", e(at))]
    produce = draw(guards(draw(slips(fill))))
    final = draw(st.sampled_from(["none"] * 6 + ["both", "one"]))
    producer: tuple[m.Statement, ...] = (loop(draw(stops()), *produce),)
    consumer = draw(consumers())
    if final != "none":
        producer = (*producer, m.Finalize())
    if final == "both":
        consumer = (*consumer, m.Finalize())
    collective = draw(st.integers(0, 5)) == 0
    ring = m.Ring(
        "operands",
        ("A",),
        depth,
        release=m.ReleaseMode.COLLECTIVE if collective else m.ReleaseMode.PER_AGENT,
        transport=draw(st.sampled_from(TRANSPORTS)),
    )
    return m.Protocol(
        "random",
        "sm_90a",
        (ring,),
        (
            m.ProtocolRole("producer", producer, draw(st.sampled_from([1, 1, 2]))),
            m.ProtocolRole("consumer", consumer, draw(st.sampled_from([1, 1, 2]))),
        ),
        (Parameter("tiles"),),
        (Buffer("A", depth, bytes_per_stage=1024),),
    )


def _one_ring(roles: tuple[m.ProtocolRole, ...], depth: int, transport: m.Transport) -> m.Protocol:
    return m.Protocol(
        "random",
        "sm_90a",
        (m.Ring("operands", ("A",), depth, transport=transport),),
        roles,
        (Parameter("tiles"),),
        (Buffer("A", depth, bytes_per_stage=1024),),
    )


@st.composite
def unified(draw: st.DrawFn) -> m.Protocol:
    """One role in the unified time loop: fills tile t, reads tile t - distance."""
    depth, distance = draw(st.integers(1, 3)), draw(st.integers(0, 3))
    late = f"t - {distance}"
    read = [
        m.WaitReady("operands", e(late)),
        m.ReadStage("operands", e(late)),
        m.Release("operands", e(late)),
    ]
    fill = [m.Acquire("operands", e("t")), m.Produce("operands", e("t"))]
    steps = [
        when("t < tiles", *draw(slips(fill))),
        when(f"t >= {distance}", *draw(slips(read))),
    ]
    if draw(st.booleans()):
        steps.reverse()
    body = (loop(f"tiles + {distance}", *steps),)
    role = m.ProtocolRole("wave", body, draw(st.sampled_from([1, 2])))
    return _one_ring((role,), depth, draw(st.sampled_from(TRANSPORTS)))


@st.composite
def nested(draw: st.DrawFn) -> m.Protocol:
    """Two steps a tile: as digits of the index, or with a counter that runs over both loops."""
    depth = draw(st.integers(1, 3))

    def position(name: str) -> tuple[str, tuple[m.Statement, ...], tuple[tuple[str, int], ...]]:
        if draw(st.booleans()):
            return "2 * t + k", (), ()
        return name, (m.Count(name, e(f"{name} + 1")),), ((name, 0),)

    at, step, counters = position("filled")
    fill = [m.Acquire("operands", e(at)), m.Produce("operands", e(at))]
    inner = loop(draw(st.sampled_from(["2"] * 8 + ["3"])), *draw(slips(fill)), *step, variable="k")
    producer = m.ProtocolRole("producer", (loop("tiles", inner),), variables=counters)
    at, step, counters = position("read")
    read = [
        m.WaitReady("operands", e(at)),
        m.Issue(operands(at), "group"),
        m.Drain("group"),
        m.Release("operands", e(at)),
    ]
    inner = loop("2", *draw(slips(read)), *step, variable="k")
    consumer = m.ProtocolRole("consumer", (loop("tiles", inner),), variables=counters)
    return _one_ring((producer, consumer), depth, draw(st.sampled_from(TRANSPORTS)))


@st.composite
def pingpong(draw: st.DrawFn) -> m.Protocol:
    """Two consumers that take turns: agent `self` reads tiles 2 t + self."""
    depth = draw(st.integers(1, 3))
    at = "2 * t + self"
    read = [
        m.WaitReady("operands", e(at)),
        m.ReadStage("operands", e(at)),
        m.Release("operands", e(at)),
    ]
    fill = [m.Acquire("operands", e("t")), m.Produce("operands", e("t"))]
    producer = m.ProtocolRole("producer", (loop("2 * tiles", *draw(slips(fill))),))
    consumer = m.ProtocolRole("consumer", (loop("tiles", *draw(slips(read))),), 2)
    return _one_ring((producer, consumer), depth, draw(st.sampled_from(TRANSPORTS)))


@st.composite
def tensor(draw: st.DrawFn) -> m.Protocol:
    """Bulk copies, an issuing warp with results in tensor memory, an epilogue; on sm_100a."""
    depth, slots, steps = draw(st.integers(1, 2)), draw(st.integers(1, 2)), draw(st.integers(1, 2))
    at = "t" if steps == 1 else f"{steps} * t + k"

    def inner(*body: m.Statement) -> m.Body:
        return (loop(str(steps), *body, variable="k"),)

    fill = [m.Acquire("operands", e(at)), m.Produce("operands", e(at))]
    load = (loop("tiles", *inner(*draw(slips(fill)))),)
    issue = m.Issue(operands(at), "mma", accumulates=operands("t", "results"))
    consume = [
        m.WaitReady("operands", e(at)),
        issue,
        m.Release("operands", e(at), after="mma"),
    ]
    outer = [
        m.Acquire("results", e("t")),
        *inner(*draw(slips(consume))),
        m.Produce("results", e("t")),
    ]
    mma: m.Body = (loop("tiles", *draw(slips(outer))),)
    if draw(st.booleans()):
        mma = (*mma, m.Drain("mma"))
    read = [
        m.WaitReady("results", e("t")),
        m.ReadStage("results", e("t")),
        m.Release("results", e("t")),
    ]
    roles = (
        m.ProtocolRole("load", load),
        m.ProtocolRole("mma", mma),
        m.ProtocolRole("epilogue", (loop("tiles", *draw(slips(read))),)),
    )
    return m.Protocol(
        "random",
        "sm_100a",
        (
            m.Ring("operands", ("A",), depth),
            m.Ring("results", ("C",), slots, transport=m.Transport.MMA),
        ),
        roles,
        (Parameter("tiles"),),
        (Buffer("A", depth, bytes_per_stage=1024), Buffer("C", slots, space=Space.TENSOR)),
    )


def protocols() -> st.SearchStrategy[m.Protocol]:
    """All shapes; half of them the plain one."""
    return st.one_of(split(), split(), split(), unified(), nested(), pingpong(), tensor())
