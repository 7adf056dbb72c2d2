"""Fences written by hand, after every generic access, and synthesised: counts and costs.

For every kernel of protocols/ on a target with proxy fences: the fences of the file as written,
the same with each fence narrowed to the spaces it is needed for, a proxy fence after every generic
access, and the cheapest set. The cheapest set is found from the kernel stripped of its fences; it
must verify, and the engines must refute it without any one of its fences.

Run: python -m benchmarks.bench_fences [--output FILE] [KERNEL...]
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass, replace
from pathlib import Path

from titan.engines.fences.cost import costs
from titan.foundation.resources import root
from titan.foundation.verdict import Verdict
from titan.sync import program as ir
from titan.verify import fence_runs
from titan.verify import fences as flow
from titan.verify.fence_review import review
from titan.verify.fence_text import without_fences
from titan.verify.model import VerifyOptions
from titan.verify.pipeline import verify_kernel

OPTIONS = VerifyOptions(save_traces=None, states_max=2_000_000, seconds_max=20.0)
MEMORY = (ir.Space.SHARED, ir.Space.GLOBAL)


@dataclass(frozen=True)
class Row:
    """One kernel. Counts are instructions of the text and executions at the largest size run."""

    kernel: str
    hand_fences: int
    hand_cost: int
    narrowed_cost: int
    always_fences: int
    always_cost: int
    always_verified: bool
    synthesised_fences: int
    synthesised_cost: int
    verified: bool
    each_needed: bool
    seconds: float


def always(program: ir.SyncProgram) -> ir.SyncProgram:
    """A proxy fence for all spaces after every generic access; tensor map fences stay."""
    buffers = {buffer.name: buffer for buffer in program.buffers}
    maps = {
        effect.buffer
        for role in program.roles
        for item in ir.walk(role.body)
        if isinstance(item, ir.Asynchronous)
        for effect in item.effects
        if effect.proxy is ir.Proxy.TENSORMAP
    }

    def block(body: ir.Block) -> ir.Block:
        found: list[ir.Operation] = []
        for item in body:
            match item:
                case ir.Fence(kind=ir.FenceKind.ASYNC):
                    continue
                case ir.Loop():
                    found.append(replace(item, body=block(item.body)))
                case ir.Branch():
                    then, otherwise = block(item.then), block(item.otherwise)
                    found.append(replace(item, then=then, otherwise=otherwise))
                case ir.Access(effects=effects) if any(
                    buffers[effect.buffer].space in MEMORY and effect.buffer not in maps
                    for effect in effects
                ):
                    found += [item, ir.Fence(ir.FenceKind.ASYNC, span=item.span)]
                case _:
                    found.append(item)
        return tuple(found)

    roles = tuple(replace(role, body=block(role.body)) for role in program.roles)
    return replace(program, roles=roles)


def price(loaded: fence_runs.Loaded) -> tuple[int, int]:
    """Fence instructions of the text, and the cost of their executions at the largest size."""
    table = costs(loaded.kernels[0].target)
    lines = {line for item in loaded.programs for line in flow.lines_of_fences(item)}
    cost = 0
    for recording in fence_runs.run_all(loaded.programs).largest:
        far = fence_runs.far_agents(recording)
        for agent, fence in fence_runs.fences_in(recording.graph, recording.fences):
            cost += table.form(fence.kind, fence.spaces, agent in far).weight
    return len(lines), cost


def measure(path: Path) -> Row | None:
    """The row of one kernel; None where the target has no proxy fences."""
    text = path.read_text(encoding="utf-8")
    original = flow.load(text, path.name, OPTIONS)
    if not fence_runs.has_fences(original.kernels[0].target):
        return None
    hand_fences, hand_cost = price(original)
    judged = review(original)
    fenced = replace(original, programs=tuple(always(item) for item in original.programs))
    always_fences, always_cost = price(fenced)
    always_verified = all(
        verify_kernel(replace(kernel, protocol=None, program=program), OPTIONS).verdict
        is Verdict.VERIFIED
        for kernel, program in zip(fenced.kernels, fenced.programs, strict=True)
    )
    stripped = flow.load(without_fences(original.root, text), path.name, OPTIONS)
    started = time.perf_counter()
    fixed = flow.fix(stripped, OPTIONS)
    seconds = time.perf_counter() - started
    fences, cost = price(fixed.loaded)
    lines = sorted({n for item in fixed.loaded.programs for n in flow.lines_of_fences(item)})
    return Row(
        path.stem,
        hand_fences,
        hand_cost,
        hand_cost - sum(item.saving for item in judged.wasted),
        always_fences,
        always_cost,
        always_verified,
        fences,
        cost,
        fixed.verified,
        all(flow.refuted_without(fixed, line, OPTIONS) for line in lines),
        round(seconds, 2),
    )


def table(rows: list[Row]) -> str:
    """The rows as a Markdown table."""
    lines = [
        "| kernel | by hand | cost | narrowed | always | cost | synthesised | cost | s |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| {row.kernel} | {row.hand_fences} | {row.hand_cost} | {row.narrowed_cost} "
        f"| {row.always_fences} | {row.always_cost} | {row.synthesised_fences} "
        f"| {row.synthesised_cost} | {row.seconds} |"
        for row in rows
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("kernels", nargs="*", help="names of kernels; all without any")
    parser.add_argument("--output", help="write the rows as JSON")
    arguments = parser.parse_args()
    rows = []
    for path in sorted(root("protocols").glob("*.yaml")):
        if arguments.kernels and path.stem not in arguments.kernels:
            continue
        row = measure(path)
        if row is not None:
            rows.append(row)
            print(row, flush=True)
    print(table(rows))
    if arguments.output:
        data = [{name: getattr(row, name) for name in Row.__dataclass_fields__} for row in rows]
        Path(arguments.output).write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
