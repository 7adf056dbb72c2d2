"""How the happens-before engine grows with a ping-pong attention kernel.

`make bench` runs it. Writes benchmarks/results/happens_before.json: for each shape the operations
of the run, those on barriers, the verdict and the seconds, for the correct kernel and for one with
the fence before its store dropped.
"""

from __future__ import annotations

import json
import platform
import resource
import time
from dataclasses import asdict, replace
from pathlib import Path

from ping_pong_attention import Shape, ping_pong_attention

from titan.engines.happens_before.engine import OrderResult, analyse
from titan.engines.happens_before.unfolding import Unfolder
from titan.sync import program as ir

RESULTS = Path(__file__).parent / "results" / "happens_before.json"
SHAPES = [
    Shape(1, 4),
    Shape(2, 4),
    Shape(4, 8),
    Shape(8, 16),
    Shape(16, 16),
    Shape(16, 32),
    Shape(32, 32),
    Shape(8, 16, depth=4),
    Shape(8, 16, warps=1),
    Shape(8, 16, warpgroups=2, warps=8),
]
BARRIER_KINDS = (ir.Wait, ir.Arrive, ir.BarrierSync, ir.BarrierArrive)


def main() -> None:
    rows = []
    for shape in SHAPES:
        program = ping_pong_attention(shape)
        agents = Unfolder(program, None, 1_000_000).agents()
        barriers = sum(
            isinstance(item.operation, BARRIER_KINDS)
            for agent in agents
            for item in agent.instances
        )
        good, good_seconds = timed(program)
        bad, bad_seconds = timed(without_fence(program))
        row = {
            **asdict(shape),
            "agents": len(agents),
            "operations": good.operations,
            "barrier_operations": barriers,
            "verdict": good.verdict,
            "seconds": round(good_seconds, 3),
            "operations_per_second": round(good.operations / good_seconds),
            "verdict_without_fence": bad.verdict,
            "kind_without_fence": bad.fault.kind if bad.fault else None,
            "seconds_without_fence": round(bad_seconds, 3),
        }
        rows.append(row)
        print(
            f"{row['operations']:7} operations, {barriers:6} on barriers, {len(agents):2} agents: "
            f"{good.verdict} in {good_seconds:.2f} s; without the fence {bad.verdict} in "
            f"{bad_seconds:.2f} s"
        )
    peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    report = {
        "benchmark": "happens_before",
        "python": platform.python_version(),
        "peak_mib": round(peak_kib / 1024),
        "rows": rows,
    }
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(report, indent=1) + "\n")


def timed(program: ir.SyncProgram) -> tuple[OrderResult, float]:
    """The verdict and the seconds it took."""
    started = time.perf_counter()
    result = analyse(program)
    return result, time.perf_counter() - started


def without_fence(program: ir.SyncProgram) -> ir.SyncProgram:
    """The kernel without the proxy fence between the output's writes and its bulk store."""
    roles = tuple(replace(role, body=_without_fences(role.body)) for role in program.roles)
    return replace(program, roles=roles)


def _without_fences(block: ir.Block) -> ir.Block:
    kept = [operation for operation in block if not isinstance(operation, ir.Fence)]
    return tuple(
        replace(operation, body=_without_fences(operation.body))
        if isinstance(operation, ir.Loop)
        else operation
        for operation in kept
    )


if __name__ == "__main__":
    main()
