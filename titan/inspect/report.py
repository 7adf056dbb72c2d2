"""The counts of a kernel's loops as text and as plain data."""

from __future__ import annotations

from titan.inspect.counts import KernelCounts, LoopCounts

NAME_MAX = 60


def as_text(title: str, kernels: tuple[KernelCounts, ...], every_loop: bool = False) -> str:
    """A block for each kernel: its loops that multiply or hold a costly fence, or all loops."""
    lines = [title]
    for kernel in kernels:
        lines.append(f"  {shortened(kernel.function)}: {kernel.instructions} instructions")
        shown = [loop for loop in kernel.loops if every_loop or loop.tensor or loop.fences]
        for loop in shown:
            lines += [f"    {line}" for line in loop_lines(loop)]
        if not shown:
            lines.append("    no loop with tensor-core instructions or costly fences")
        lines += [f"    finding   {finding}" for finding in kernel.findings]
    return "\n".join(lines) + "\n"


def loop_lines(loop: LoopCounts) -> list[str]:
    """One loop; segments where it holds tensor-core instructions."""
    place = f"loop {loop.begin:#06x} to {loop.end:#06x}, depth {loop.depth}"
    lines = [f"{place}: {summary(loop)}"]
    classes = ", ".join(f"{count} {kind}" for kind, count in loop.by_class.items())
    lines.append(f"  classes   {classes}")
    if loop.tensor:
        lines.append("  after                   instructions  tensor core  arithmetic")
        for segment in loop.segments:
            lines.append(
                f"    {segment.after:<23}{segment.instructions:>10}"
                f"{segment.tensor:>13}{segment.arithmetic:>12}"
            )
    return lines


def summary(loop: LoopCounts) -> str:
    """The main counts of a loop in one line."""
    words = [f"{loop.instructions} instructions ({loop.least} on the shortest way)"]
    if loop.per_tensor is not None:
        words.append(f"{loop.tensor} of the tensor cores ({loop.per_tensor:.1f} for each)")
    if loop.issue_share is not None:
        words.append(f"{loop.issue_share:.2f} issue slots for each cycle of the tensor cores")
    if loop.turn is not None:
        words.append(f"{loop.turn} between named barriers")
    if loop.below_wait:
        words.append(f"{loop.below_wait} of arithmetic below the last wait")
    if loop.fences:
        words.append(", ".join(f"{count} {name}" for name, count in loop.fences.items()))
    return "; ".join(words)


def shortened(name: str) -> str:
    """A mangled name as far as it fits a line."""
    return name if len(name) <= NAME_MAX else name[: NAME_MAX - 3] + "..."


def as_data(kernel: KernelCounts) -> dict[str, object]:
    """A kernel as plain data."""
    return {
        "function": kernel.function,
        "instructions": kernel.instructions,
        "local": kernel.local,
        "findings": list(kernel.findings),
        "loops": [loop_data(loop) for loop in kernel.loops],
    }


def loop_data(loop: LoopCounts) -> dict[str, object]:
    """A loop as plain data."""
    return {
        "begin": loop.begin,
        "end": loop.end,
        "depth": loop.depth,
        "instructions": loop.instructions,
        "least": loop.least,
        "classes": loop.by_class,
        "tensor": loop.tensor_names,
        "tensor_cycles": loop.tensor_cycles,
        "per_tensor": None if loop.per_tensor is None else round(loop.per_tensor, 2),
        "issue_share": None if loop.issue_share is None else round(loop.issue_share, 3),
        "fences": loop.fences,
        "turn": loop.turn,
        "below_wait": loop.below_wait,
        "segments": [
            {
                "after": segment.after,
                "instructions": segment.instructions,
                "tensor": segment.tensor,
                "arithmetic": segment.arithmetic,
            }
            for segment in loop.segments
        ],
    }
