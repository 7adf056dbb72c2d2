"""Times of a package: launches with cold inputs, and cycles of one iteration inside the kernel.

Runs in a child process. The cycles are those of the multiprocessor's clock (`TITAN_MEASURE`), from
the first wait of a CTA to the end of its last one, at two trip counts. Their difference, divided by
the difference of the trip counts, is one iteration in the steady state; what is left is the tail:
filling, draining and the epilogue. So neither launch nor memory latency at the ends is in it.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from titan.device import hooks
from titan.device.packages import CompiledPackage, OnGpu, read
from titan.device.records import BeginRecord, CyclesRecord, Job, TimeRecord
from titan.device.variants import SAFE

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

L2_FLUSH_BYTES = 256 << 20
SAMPLES = 1 << 20  # different numbers of an input; larger ones repeat them
REPEATS = 5


def measure(job: Job) -> Iterator[BeginRecord | TimeRecord]:
    """The median time of a launch with cold inputs, for each size."""
    manifest, files = read(Path(job["folder"]), SAFE)
    module = CompiledPackage(manifest, files, job).module()
    for sizes in job["sizes"]:
        yield {"kind": "begin", "sizes": sizes}
        made = OnGpu(manifest, module, sizes, _Inputs())
        cupy = made.cupy
        flush = cupy.empty(L2_FLUSH_BYTES, dtype="uint8")
        for _ in range(3):
            made.run()
        times = []
        for _ in range(int(job.get("launches", 20))):
            flush.fill(0)
            begin, end = cupy.cuda.Event(), cupy.cuda.Event()
            begin.record()
            made.run()
            end.record()
            end.synchronize()
            times.append(cupy.cuda.get_elapsed_time(begin, end) / 1000)
        yield {
            "kind": "time",
            "sizes": sizes,
            "median_seconds": statistics.median(times),
            "least_seconds": min(times),
            "launches": len(times),
            "grid": made.launch.grid,
            **made.function.resources(made.launch.block),
        }


def cycles(job: Job) -> Iterator[BeginRecord | CyclesRecord]:
    """For each size the cycles between the first and the last wait, the least of some launches."""
    manifest, files = read(Path(job["folder"]), SAFE)
    compiled = CompiledPackage(manifest, files, job)
    level = hooks.Level("cycles", (hooks.MEASURE,))
    for sizes in job["sizes"]:
        yield {"kind": "begin", "sizes": sizes}
        spans, made = [], None
        for _ in range(REPEATS):
            module = compiled.arm(level, 0)
            made = made or OnGpu(manifest, module, sizes, _Inputs())
            made.run()
            made.outputs()
            spans.append(hooks.longest_span(module.read("titan_span", hooks.SPAN.size)))
        yield {"kind": "cycles", "sizes": sizes, "span_cycles": min(spans)}


class _Inputs(dict[str, "NDArray[numpy.float64]"]):
    """A few normal numbers for any tensor; they are repeated to its size."""

    def __missing__(self, name: str) -> NDArray[numpy.float64]:
        import numpy

        self[name] = numpy.random.default_rng(len(self)).standard_normal(SAMPLES)
        return self[name]
