"""Helpers: small kernels in PTX text, run on the machine."""

from __future__ import annotations

from titan.isa.ptx.module import Module
from titan.isa.ptx.parse import parse
from titan.isa.simt import events as ev
from titan.isa.simt.decode import decode
from titan.isa.simt.execution import SimtExecution
from titan.isa.simt.launch import Allocation, Launch, LaunchParameter, LaunchTensorMap, Options
from titan.isa.simt.layout import lay_out
from titan.isa.simt.native import Native, core
from titan.isa.simt.outcome import Run
from titan.isa.simt.run import run

OUT = 0x10000  # where kernels of these tests write their results
MAP = bytes(range(128))  # the 128 bytes of the tensor map of these tests

REGISTERS = """
.reg .pred %p<16>;
.reg .b16 %h<8>;
.reg .b32 %r<64>;
.reg .b64 %d<32>;
.reg .f32 %f<80>;
"""


def module_of(body: str, before: str = "", parameters: str = ".param .u64 out") -> Module:
    """A module with one entry `k`."""
    text = f""".version 8.7
.target sm_100a
.address_size 64
{before}
.entry k({parameters})
{{
{REGISTERS}
{body}
}}
"""
    module, findings = parse(text, "k.ptx")
    assert module is not None, [(str(f.span), f.headline) for f in findings]
    return module


def launch_of(
    *,
    grid: int = 1,
    block: int = 32,
    cluster: int = 1,
    shared: int = 0,
    parameters: tuple[LaunchParameter, ...] = (LaunchParameter(OUT.to_bytes(8, "little")),),
    maps: dict[bytes, LaunchTensorMap] | None = None,
    allocations: tuple[Allocation, ...] = (),
    memory: dict[int, bytes] | None = None,
) -> Launch:
    return Launch(
        "k", (grid, 1, 1), (block, 1, 1), (cluster, 1, 1), shared, parameters, maps or {},
        memory or {}, allocations,
    )  # fmt: skip


def same(python: Run, native: Run) -> None:
    """Both machines recorded the same."""
    for left, right in zip(python.events, native.events, strict=False):
        assert left == right
    assert len(python.events) == len(native.events)
    assert python.same_step == native.same_step
    assert python.outcome == native.outcome
    assert python.confluence == native.confluence
    assert python.instructions == native.instructions


def ran(module: Module, launch: Launch, options: Options | None = None) -> Run:
    """The run of the Python machine; the native one, where it is built, must do the same."""
    found, findings = run(module, launch, options, native=False)
    assert found is not None, [(str(f.span), f.headline) for f in findings]
    if core() is not None:
        other, _ = run(module, launch, options, native=True)
        assert other is not None
        same(found, other)
    return found


def results(
    module: Module, launch: Launch, count: int, options: Options | None = None
) -> list[int]:
    """The 32-bit words that a kernel stored at OUT; -1 where they are not known."""
    entry = module.entries()[0]
    layout = lay_out(module, entry, launch.dynamic_shared_bytes)
    code, findings = decode(module, entry, layout)
    assert code is not None, [(str(f.span), f.headline) for f in findings]
    options = options or Options()
    machine = SimtExecution(code, layout, launch, options)
    places = list(layout.parameters)
    machine.load_parameters(places)
    found = machine.run()
    assert found.outcome.ending == 0, found.outcome
    words = [machine.memory.bytes_at(OUT + 4 * i, 4) for i in range(count)]
    if core() is not None:
        other = Native(code, layout, launch, options)
        same(found, other.run(places, tuple((OUT + 4 * i, 4) for i in range(count))))
        assert other.read == words
    return [-1 if word is None else int.from_bytes(word, "little") for word in words]


def of(run_: Run, kind: type[ev.Event]) -> list[ev.Event]:
    """The events of a kind."""
    return [event for event in run_.events if isinstance(event, kind)]


STORE = """
ld.param.u64 %d0, [out];
mov.u32 %r60, %tid.x;
mad.wide.u32 %d1, %r60, 4, %d0;
st.global.u32 [%d1], %r0;
ret;
"""


def lanes(body: str, count: int = 32, **launch: int) -> list[int]:
    """What each thread has in %r0 after `body`."""
    return results(module_of(body + STORE), launch_of(block=count, **launch), count)


def place_of(found: Run, name: str, entry: str = "ring") -> int:
    """Where a variable of a function stands in shared memory."""
    assert found.prepared is not None
    place = found.prepared.layout.find(entry, name)
    assert place is not None
    return place[1]
