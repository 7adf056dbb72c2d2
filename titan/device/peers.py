"""What a vendor's library or a framework needs for the same work, in the same process."""

from __future__ import annotations

import functools
import statistics
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Protocol

from titan.device.manifests import Sizes
from titan.device.records import BeginRecord, Job, TimeRecord
from titan.device.work import family
from titan.foundation.errors import Refusal

if TYPE_CHECKING:
    import torch as torch_types

    from titan.codegen.tile.model import TileProgram

FLUSH_BYTES = 256 << 20
SAMPLES = 1 << 20  # different numbers of an input; larger ones repeat them


class NoPeer(Refusal):
    """There is nothing to compare with here; the text says why."""


def measure(job: Job) -> Iterator[BeginRecord | TimeRecord]:
    """The median time of the peer for each size, with cold inputs. Raises NoPeer.

    With PyTorch its calls; without it cuBLAS through CuPy, which has no bf16: f16 then stands in.
    """
    from titan.codegen.tile.stored import from_data

    tile = from_data(job["program"])
    try:
        import torch
    except ImportError:
        yield from _by_cupy(tile, job)
        return
    for sizes in job["sizes"]:
        yield {"kind": "begin", "sizes": sizes}
        name, call = _peer(torch, tile, sizes)
        flush = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device="cuda")
        event = functools.partial(torch.cuda.Event, enable_timing=True)
        elapsed = torch.cuda.Event.elapsed_time
        yield _timed(job, sizes, name, call, Clock(flush.zero_, event, elapsed))


class StreamEvent(Protocol):
    """A mark on a stream of the device."""

    def record(self) -> object:
        """Put the mark on the stream."""

    def synchronize(self) -> object:
        """Wait until the device has passed it."""


@dataclass(frozen=True, slots=True)
class Clock:
    """How a library measures: a flush of the caches, new events, milliseconds between two."""

    flush: Callable[[], object]
    event: Callable[[], StreamEvent]
    elapsed: Callable[[StreamEvent, StreamEvent], float]


def _timed(
    job: Job,
    sizes: Sizes,
    peer: str,
    call: Callable[[], object],
    clock: Clock,
) -> TimeRecord:
    """The median over the launches, each behind a flush of the caches."""
    for _ in range(3):
        call()
    times = []
    for _ in range(int(job.get("launches", 20))):
        clock.flush()
        begin, end = clock.event(), clock.event()
        begin.record()
        call()
        end.record()
        end.synchronize()
        times.append(clock.elapsed(begin, end) / 1000)
    return {
        "kind": "time", "sizes": sizes, "peer": peer,
        "median_seconds": statistics.median(times), "launches": len(times),
    }  # fmt: skip


def _by_cupy(tile: TileProgram, job: Job) -> Iterator[BeginRecord | TimeRecord]:
    """Products of matrices only. Raises NoPeer."""
    import numpy

    from titan.device.gpu import library

    if family(tile) != "gemm" or tile.tensors[0].dtype not in ("bf16", "f16"):
        raise NoPeer("PyTorch is not installed, and CuPy has no call for this")
    cupy = library()
    few = numpy.random.default_rng(0).standard_normal(SAMPLES).astype(numpy.float16)
    flush = cupy.empty(FLUSH_BYTES, dtype="uint8")
    for sizes in job["sizes"]:
        yield {"kind": "begin", "sizes": sizes}
        if not {"M", "N", "K"} <= set(sizes):
            raise NoPeer("no library call for these sizes")
        m, n, k = (int(sizes[name]) for name in "MNK")
        a, b = cupy.asarray(numpy.resize(few, (m, k))), cupy.asarray(numpy.resize(few, (n, k)))
        clock = Clock(functools.partial(flush.fill, 0), cupy.cuda.Event, cupy.cuda.get_elapsed_time)
        product = functools.partial(cupy.matmul, a, b.T)
        yield _timed(job, sizes, "cuBLAS through CuPy, f16", product, clock)


def _peer(
    torch: ModuleType, tile: TileProgram, sizes: Mapping[str, int]
) -> tuple[str, Callable[[], object]]:
    kinds = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
    dtype = kinds.get(tile.tensors[0].dtype)
    if dtype is None:
        raise NoPeer(f"no library call here for {tile.tensors[0].dtype}")

    def random(*shape: int) -> torch_types.Tensor:
        return torch.randn(*shape, device="cuda").to(dtype)

    match family(tile):
        case "gemm" if {"M", "N", "K"} <= set(sizes):
            a, b = random(sizes["M"], sizes["K"]), random(sizes["N"], sizes["K"])
            return "cuBLAS through PyTorch", lambda: torch.matmul(a, b.T)
        case "attention" if {"heads", "queries", "keys"} <= set(sizes):
            if sum(operation.kind == "mma" for operation in tile.body) != 2:
                raise NoPeer("no library call makes this part of the backward pass alone")
            head = dict(tile.sizes).get("head", 128)
            heads, queries, keys = (sizes[n] for n in ("heads", "queries", "keys"))
            q = random(1, heads, queries, head)
            k, v = random(1, heads, keys, head), random(1, heads, keys, head)
            causal = "causal" in tile.name
            attend = torch.nn.functional.scaled_dot_product_attention
            return "PyTorch attention", lambda: attend(q, k, v, is_causal=causal)
        case "memory" if {"M", "N"} <= set(sizes):
            x = random(sizes["M"], sizes["N"])
            y = torch.empty_like(x)
            return "PyTorch copy", lambda: y.copy_(x)
    raise NoPeer("no library call for these sizes")
