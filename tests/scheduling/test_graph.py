"""Graphs from Python, and kernels as functions of their sizes."""

from __future__ import annotations

import pytest

from titan.foundation.resources import root
from titan.scheduling import kernels
from titan.scheduling.check import check
from titan.scheduling.graph import DependenceGraph, GraphError, Traits
from titan.scheduling.loop.load import load_loop
from titan.scheduling.run import Request, run


def test_the_example_of_the_module():
    graph = DependenceGraph("mine", {"TC": 1, "SFU": 1})
    graph.operation("S", TC=1)
    graph.operation("P", SFU=1)
    graph.operation("O", TC=1)
    graph.edge("S", "P")
    graph.edge("P", "O")
    graph.edge("O", "O", distance=1)
    result = graph.solve(Request(solver="joint"))
    assert result.schedule is not None and result.schedule.ii == 2 and result.proved


def test_a_graph_is_the_loop_of_the_file():
    """The same operations and dependences as a loop file of the library."""
    loop = load_loop(root("protocols") / "loops" / "toy_fa_hopper.yaml")
    graph = DependenceGraph(loop.name, loop.machine, loop.groups)
    for op in loop.operations:
        traits = Traits(
            op.latency_cycles, op.registers, op.warps, dict(op.footprints), op.variable_latency,
            op.slots, op.spill_cycles, op.issue_cycles,
        )  # fmt: skip
        graph.operation(op.name, traits, **{use.unit: use.cycles for use in op.uses})
    names = [op.name for op in loop.operations]
    for e in loop.dependences:
        graph.edge(
            names[e.source], names[e.sink], e.delay_cycles, e.distance, e.kind == "order",
            e.blocking,
        )  # fmt: skip
    made = graph.loop()
    assert (made.operations, made.dependences) == (loop.operations, loop.dependences)


def test_all_faults_of_a_graph_at_once():
    graph = DependenceGraph("bad", {"TC": 1, "TENSOR": 1})
    graph.operation("A", TC=1)
    graph.operation("A", TC=0)
    graph.operation("B", TENSR=1)
    graph.edge("A", "C")
    graph.edge("A", "A", distance=-1)
    with pytest.raises(GraphError) as caught:
        graph.loop()
    assert len(caught.value.faults) == 5
    assert any("did you mean `TENSOR`" in fault for fault in caught.value.faults)


def test_an_unknown_machine():
    with pytest.raises(GraphError, match="did you mean `sm_90a`"):
        DependenceGraph("x", "sm_90")


@pytest.mark.parametrize(
    ("loop", "ii"),
    [
        (kernels.flash_attention_forward_simplified(), 2),
        (kernels.simple_gemm_pipeline("sm_90a", 128, 256, 64), 1024),
        (kernels.simple_gemm_pipeline("sm_100a", 128, 256, 64), 512),
        (kernels.simple_gemm_pipeline("sm_90a", 256, 128, 128, depth=2), 2048),
        (kernels.flash_attention_forward_hopper(), 2048),
        (kernels.flash_attention_forward_hopper(rows=64, keys=64), 1024),
        (kernels.flash_attention_forward_blackwell(), 2048),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_kernels_by_their_sizes(loop, ii):
    """What binds is the tensor core (or the exponentials), by multiply-accumulates and rates."""
    result = run(loop, Request(budget_seconds=30))
    assert result.schedule is not None and result.schedule.ii == ii
    assert not check(loop, result.schedule)


def test_a_tile_that_does_not_come_out_even():
    with pytest.raises(kernels.BadTileSize):
        kernels.simple_gemm_pipeline(m=100)
