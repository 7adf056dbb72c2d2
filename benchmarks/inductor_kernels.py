"""Functions that `torch.compile` makes Triton kernels of, on the emulated device, against PyTorch.

    python -m benchmarks.inductor_kernels [--device h100] [--only TEXT] [--write]

Needs PyTorch, Triton and a C compiler beside TITAN. Results and gradients of a compiled function
are compared with those of the same function without compilation; every launch is checked before it
runs, those of configurations that Inductor tries, too. `--write` puts the table into
docs/reference/emulated.md and benchmarks/results.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.emulated_scripts import PAGE
from benchmarks.real_code import Row, store, table_text, write
from titan.emulated.faults import LaunchFault
from titan.emulated.programs import cause_of
from titan.emulated.scripts import ScriptDevice
from titan.emulated.settings import CHECK, DEVICE, from_environment
from titan.foundation.verdict import Verdict

if TYPE_CHECKING:
    import torch

HEAD: Row = ("function", "launches verified", "others", "largest difference", "seconds")


@dataclass(frozen=True)
class Case:
    """A function, what it is given, how it is compiled."""

    function: Callable[..., torch.Tensor]
    given: tuple[torch.Tensor, ...]
    mode: str = "default"
    dynamic: bool | None = None
    gradients: bool = True


def normalised() -> dict[str, Case]:
    """Pointwise functions, reductions and norms."""
    import torch
    import torch.nn.functional as plain

    def made(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, device="cuda")

    half = torch.bfloat16
    return {
        "pointwise": Case(lambda x, y: torch.sigmoid(x) * y + torch.tanh(y) - plain.gelu(x),
                          (made(33, 100), made(33, 100))),
        "silu in bfloat16": Case(lambda x, y: plain.silu(x) * y,
                                 (made(16, 200).to(half), made(16, 200).to(half))),
        "softmax": Case(lambda x: torch.softmax(2 * x, -1), (made(9, 100),)),
        "log_softmax of long rows": Case(lambda x: torch.log_softmax(x, -1), (made(4, 3000),)),
        "layer_norm": Case(lambda x, w, b: plain.layer_norm(x, (256,), w, b),
                           (made(17, 256), made(256), made(256))),
        "rms_norm": Case(lambda x, w: plain.rms_norm(x, (2000,), w), (made(9, 2000), made(2000))),
        "group_norm": Case(lambda x: plain.group_norm(x, 2), (made(3, 4, 50),)),
        "sum of all": Case(lambda x: (x * x).sum(), (made(300, 1000),)),
        "sum of columns": Case(lambda x: x.sum(0), (made(3000, 20),)),
        "standard deviation": Case(lambda x: x.std(0), (made(100, 5),)),
        "logsumexp": Case(lambda x: torch.logsumexp(x, -1), (made(8, 2000),)),
        "cross_entropy": Case(lambda x: plain.cross_entropy(x, torch.arange(7, device="cuda")),
                              (made(7, 1000),)),
        "argmax": Case(lambda x: x.argmax(-1), (made(9, 200),)),
        "product": Case(lambda x: x.prod(-1), (made(4, 50),)),
    }  # fmt: skip


def indexed() -> dict[str, Case]:
    """What moves and picks elements, scans, sorts; convolutions and pooling."""
    import torch
    import torch.nn.functional as plain

    def made(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, device="cuda")

    def places(end: int, *shape: int) -> torch.Tensor:
        return torch.randint(0, end, shape, device="cuda")

    def put(x: torch.Tensor, at: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        x = x.clone()
        x[at] = v
        return x

    return {
        "cat": Case(lambda x, y: torch.cat([x, 2 * y], 1).relu(), (made(5, 33), made(5, 70))),
        "embedding": Case(lambda w, at: 2 * plain.embedding(at, w), (made(10, 64), places(10, 9))),
        "gather": Case(lambda x, at: 3 * torch.gather(x, 1, at), (made(10, 64), places(64, 10, 5))),
        "scatter_add": Case(lambda x, at, y: x.scatter_add(0, at, y),
                            (made(10, 64), places(10, 20, 64), made(20, 64))),
        "index_put": Case(put, (made(20, 8), torch.tensor([3, 1, 7], device="cuda"), made(3, 8))),
        "roll, flip, transpose": Case(lambda x: x.roll(3, 1).flip(0).t().contiguous(),
                                      (made(20, 33),)),
        "cumsum": Case(lambda x: x.cumsum(-1), (made(5, 300),)),
        "sort": Case(lambda x: torch.sort(x, -1)[0], (made(5, 60),)),
        "pooling": Case(lambda x: plain.avg_pool2d(plain.max_pool2d(x, 2), 2),
                        (made(2, 3, 16, 16),)),
        "bilinear interpolation": Case(
            lambda x: plain.interpolate(x, scale_factor=2, mode="bilinear"), (made(1, 2, 8, 8),)),
        "any sizes (dynamic)": Case(lambda x: (x.relu() + 1).sum(-1), (made(9, 70),), dynamic=True),
        "mode reduce-overhead": Case(lambda x: (x.relu() * 2).sum(-1), (made(20, 33),),
                                     mode="reduce-overhead"),
    }  # fmt: skip


def multiplied() -> dict[str, Case]:
    """Products by Triton's templates, attention, layers."""
    import torch
    import torch.nn.functional as plain
    from torch.nn.attention.flex_attention import flex_attention

    def made(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, device="cuda")

    def causal(score: torch.Tensor, b: object, h: object, i: int, j: int) -> torch.Tensor:
        return torch.where(i >= j, score, -float("inf"))

    layers = torch.nn.Sequential(
        torch.nn.Linear(20, 30), torch.nn.GELU(), torch.nn.LayerNorm(30), torch.nn.Linear(30, 4)
    ).cuda()
    tuned = "max-autotune-no-cudagraphs"
    norm = torch.nn.BatchNorm2d(6).cuda()
    return {
        "product, bias, relu (max-autotune)": Case(
            lambda x, y, b: plain.relu(x @ y + b), (made(64, 64), made(64, 64), made(64)),
            mode=tuned, gradients=False),
        "attention by softmax": Case(lambda q, k, v: torch.softmax(q @ k.mT, -1) @ v,
                                     (made(2, 33, 16), made(2, 33, 16), made(2, 33, 16))),
        "flex_attention, causal": Case(lambda q, k, v: flex_attention(q, k, v, score_mod=causal),
                                       (made(1, 1, 128, 32),) * 3),
        "two linear layers, gelu, layer_norm": Case(layers, (made(8, 20),)),
        "batch_norm": Case(norm, (made(4, 6, 9, 9),)),
    }  # fmt: skip


def difference(case: Case) -> float:
    """The largest difference of results and gradients."""
    import torch

    found: list[list[torch.Tensor]] = []
    for function in (
        torch.compile(case.function, mode=case.mode, dynamic=case.dynamic), case.function
    ):  # fmt: skip
        follow = case.gradients
        given = [x.clone().requires_grad_(x.is_floating_point() and follow) for x in case.given]
        result = function(*given)
        if result.requires_grad and follow:
            weights = torch.linspace(-1, 1, result.numel()).view(result.shape)
            (result * weights).sum().backward()
        found.append([result.detach(), *(x.grad for x in given if x.grad is not None)])
    pairs = zip(*found, strict=True)
    return max(float((a.double() - b.double()).abs().max()) for a, b in pairs)


def measured(name: str, case: Case) -> Row:
    """A row: launches by verdict, the difference or the code of a fault, seconds."""
    from triton.runtime.driver import driver

    checker = driver.active.queue.checker
    before, started = checker.verdicts.copy(), time.process_time()
    try:
        apart = f"{difference(case):.1g}"
    except Exception as error:
        fault = cause_of(error)
        if not isinstance(fault, LaunchFault):
            raise
        apart = ", ".join(f"`{item.code}`" for item in fault.findings)
    counts = checker.verdicts - before
    verified = counts.pop(Verdict.VERIFIED, 0)
    others = ", ".join(f"{count} {verdict.value}" for verdict, count in counts.items()) or "-"
    return name, str(verified), others, apart, f"{time.process_time() - started:.1f}"


def main() -> None:
    """Print or write the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--device", default="h100")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    settings = from_environment({**os.environ, CHECK: "all", DEVICE: options.device})
    rows: list[Row] = []
    with ScriptDevice(settings):
        import torch

        torch.manual_seed(0)
        for name, case in {**normalised(), **indexed(), **multiplied()}.items():
            if options.only in name:
                rows.append(measured(name, case))
                print(" | ".join(rows[-1]), flush=True)
    if options.write:
        store("inductor_kernels", HEAD, rows)
        write("inductor", table_text(HEAD, rows), PAGE)


if __name__ == "__main__":
    main()
