"""Kernels of Liger-Kernel on the emulated device, against PyTorch: forward, backward, launches.

    TRITON_DEFAULT_BACKEND=titan python -m benchmarks.liger_kernels [--only TEXT] [--write]

Needs PyTorch, Triton and the package `liger-kernel` beside TITAN. Every launch is checked before it
runs. `--write` puts the table into docs/reference/emulated.md and benchmarks/results.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from benchmarks.real_code import RESULTS, Row, store, table_text, write
from titan.foundation.verdict import Verdict

if TYPE_CHECKING:
    import torch

PAGE = RESULTS.parents[1] / "docs/reference/emulated.md"


Function = Callable[..., "torch.Tensor | tuple[torch.Tensor, ...]"]
Case = tuple[Function, Function, "tuple[torch.Tensor, ...]"]


def cases() -> dict[str, Case]:
    """Liger's function, PyTorch's, and the arguments, by name."""
    import liger_kernel.transformers.functional as liger
    import torch
    import torch.nn.functional as plain

    torch.manual_seed(0)

    def made(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, requires_grad=True)

    def normal(x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)

    def added(x: torch.Tensor, r: torch.Tensor, w: torch.Tensor) -> object:
        return normal(x + r) * w, x + r

    classes, few = torch.randint(0, 500, (12,)), torch.randint(0, 100, (16,))
    goal = torch.softmax(torch.randn(4, 60), -1)
    log_goal = goal.log()

    def divergence(x: torch.Tensor) -> object:
        logs = torch.log_softmax(x, -1)
        middle = ((goal + logs.exp()) / 2).log()
        parts = goal * (log_goal - middle) + logs.exp() * (logs - middle)
        return parts.sum() / 2 / len(x)

    return {
        "rms_norm": (lambda x, w: liger.liger_rms_norm(x, w, 1e-6), lambda x, w: normal(x) * w,
                     (made(8, 256), made(256))),
        "layer_norm": (lambda x, w, b: liger.liger_layer_norm(x, w, b, 1e-6),
                       lambda x, w, b: plain.layer_norm(x, (200,), w, b, 1e-6),
                       (made(6, 200), made(200), made(200))),
        "group_norm": (lambda x, w, b: liger.liger_group_norm(x, w, b, 8, 4, 1e-6),
                       lambda x, w, b: plain.group_norm(x, 4, w, b, 1e-6),
                       (made(2, 8, 40), made(8), made(8))),
        "fused_add_rms_norm": (lambda x, r, w: liger.liger_fused_add_rms_norm(x, r, w, 1e-6), added,
                               (made(4, 128), made(4, 128), made(128))),
        "swiglu": (liger.liger_swiglu, lambda a, b: plain.silu(a) * b,
                   (made(6, 300), made(6, 300))),
        "geglu": (liger.liger_geglu, lambda a, b: plain.gelu(a, approximate="tanh") * b,
                  (made(6, 300), made(6, 300))),
        "softmax": (liger.liger_softmax, lambda x: plain.softmax(x, -1), (made(6, 300),)),
        "cross_entropy": (lambda x: liger.liger_cross_entropy(x, classes),
                          lambda x: plain.cross_entropy(x, classes), (made(12, 500),)),
        "fused_linear_cross_entropy": (
            lambda x, w: liger.liger_fused_linear_cross_entropy(x, w, few),
            lambda x, w: plain.cross_entropy(x @ w.T, few), (made(16, 32), made(100, 32))),
        "jsd": (lambda x: liger.liger_jsd(torch.log_softmax(x, -1), log_goal), divergence,
                (made(4, 60),)),
        "kl_div": (lambda x: liger.liger_kl_div(torch.log_softmax(x, -1), goal),
                   lambda x: plain.kl_div(torch.log_softmax(x, -1), goal), (made(4, 60),)),
    }  # fmt: skip


def difference(case: Case) -> float:
    """The largest difference of results and gradients."""
    import torch

    found: list[list[torch.Tensor]] = []
    for function in case[:2]:
        given = [item.detach().clone().requires_grad_() for item in case[2]]
        results = function(*given)
        results = results if isinstance(results, tuple) else (results,)
        generator = torch.Generator().manual_seed(1)
        weights = [torch.randn(item.shape, generator=generator) for item in results]
        sum((a * b).sum() for a, b in zip(results, weights, strict=True)).backward()
        found.append([*(item.detach() for item in results), *(item.grad for item in given)])
    return max(float((a - b).abs().max()) for a, b in zip(*found, strict=True))


def main() -> None:
    """Print or write the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    os.environ.setdefault("TITAN_CHECK", "1")
    from triton.runtime.driver import driver

    head: Row = ("kernel", "launches verified", "others", "largest difference", "seconds")
    rows: list[Row] = []
    for name, case in cases().items():
        if options.only not in name:
            continue
        checker = driver.active.queue.checker
        before, started = checker.verdicts.copy(), time.process_time()
        apart = difference(case)
        counts = checker.verdicts - before
        verified = counts.pop(Verdict.VERIFIED, 0)
        others = ", ".join(f"{count} {verdict.value}" for verdict, count in counts.items()) or "-"
        seconds = f"{time.process_time() - started:.1f}"
        rows.append((name, str(verified), others, f"{apart:.1g}", seconds))
        print(" | ".join(rows[-1]), flush=True)
    if options.write:
        store("liger_kernels", head, rows)
        write("liger", table_text(head, rows), PAGE)


if __name__ == "__main__":
    main()
