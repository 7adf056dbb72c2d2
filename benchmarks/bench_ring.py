"""Time to the verdict on the mbarrier ring, for every number of tiles, with Spin as peer.

The ring: a producer fills D stages by bulk copies that complete on an mbarrier with a transaction
count; C consumer warpgroups wait by parity, issue a tensor-core group that reads the stage, keep
one group in flight, and release the stage before. The verdict covers every number of tiles. The
peer is Spin 6.5.2 (`gcc -O3 -DSAFETY`) on the equivalent model (`ring_promela`), run on the same
machine in the same call. From the root of the repository:

    python benchmarks/bench_ring.py [--spin] [--out benchmarks/results/ring.json]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from titan.engines.explore.search import Reductions, explore  # noqa: E402
from titan.engines.result import Budget  # noqa: E402
from titan.sync import program as ir  # noqa: E402
from titan.sync.expression import parse_expression as e  # noqa: E402

SPIN_SIZES = ((3, 2), (4, 2), (4, 3))
TARGET_SIZES = ((4, 4), (5, 4), (6, 2), (4, 8))
GROWTH = [(depth, 2) for depth in range(2, 9)] + [(4, c) for c in range(1, 9)]
BYTES = 16384


def ring(depth: int, consumers: int, drained: bool = True) -> ir.SyncProgram:
    """The ring as a sync program; with `drained` False, consumers release what they still read."""
    stage = e(f"t % {depth}")
    full, empty = ir.Reference("full", stage), ir.Reference("empty", stage)
    load = ir.Asynchronous(
        (ir.Effect("tile", stage, True, e("t"), None, ir.Proxy.ASYNC),),
        None,
        (ir.Completion(full, e(str(BYTES))),),
    )
    fill = (
        ir.Wait(empty, e(f"(t // {depth} + 1) % 2"), e(f"t // {depth} - 1")),
        ir.Arrive(full, transaction=e(str(BYTES))),
        load,
    )
    mma = ir.Asynchronous((ir.Effect("tile", stage, False, e("t"), None, ir.Proxy.ASYNC),), "group")
    earlier = ir.Arrive(ir.Reference("empty", e(f"(t - 1) % {depth}")))
    use = (
        ir.Wait(full, e(f"t // {depth} % 2"), e(f"t // {depth}")),
        mma,
        ir.Commit("group"),
        ir.QueueWait("group", e("1" if drained else "2")),
        ir.Branch(e("t >= 1"), (earlier,)),
    )
    last = ir.Arrive(ir.Reference("empty", e(f"(tiles - 1) % {depth}")))
    loop = (ir.Loop("t", e("0"), e("tiles"), use), ir.QueueWait("group"))
    return ir.SyncProgram(
        "ring",
        "sm_90a",
        (
            ir.Role("producer", (ir.Loop("t", e("0"), e("tiles"), fill),), 1, 1),
            ir.Role("consumer", (*loop, ir.Branch(e("tiles >= 1"), (last,))), consumers, 128),
        ),
        parameters=(ir.Parameter("tiles"),),
        barriers=(ir.Barrier("full", 1, depth), ir.Barrier("empty", consumers, depth)),
        buffers=(ir.Buffer("tile", depth),),
        queues=(ir.Queue("group", pipelined=True),),
    )


def ring_promela(depth: int, consumers: int) -> str:
    """The same ring for Spin. Tiles count modulo twice the depth, which tells all live ones apart.

    The producer ends the loop at any tile; consumers follow it. A copy engine for each stage, a
    tensor pipe for each consumer; races, stale reads and overwritten reads are assertions.
    """
    return f"""/* mbarrier ring: D = {depth} stages, C = {consumers} consumers, any tiles */
#define D {depth}
#define C {consumers}
#define M ({2 * depth})
byte full_pending[D] = 1; bit full_phase[D]; byte full_bytes[D];
byte empty_pending[D] = C; bit empty_phase[D];
byte content[D] = M; bool loading[D]; byte incoming[D]; byte reading[D];
bool ended; byte last;
byte groups[C]; byte oldest[C];

inline close_full(s) {{
  if :: full_pending[s] == 0 && full_bytes[s] == 0 ->
          full_phase[s] = 1 - full_phase[s]; full_pending[s] = 1
     :: else fi
}}
inline release(s) {{
  assert(empty_pending[s] > 0); empty_pending[s]--;
  if :: empty_pending[s] == 0 -> empty_phase[s] = 1 - empty_phase[s]; empty_pending[s] = C
     :: else fi
}}
active proctype producer() {{
  byte t;
  do
  :: empty_phase[t % D] != ((t / D + 1) % 2);
     d_step {{ assert(full_pending[t % D] > 0); full_bytes[t % D]++; full_pending[t % D]--;
               close_full(t % D) }};
     d_step {{ assert(!loading[t % D] && reading[t % D] == 0);
               loading[t % D] = 1; incoming[t % D] = t; t = (t + 1) % M }}
  :: d_step {{ ended = 1; last = t }}; break
  od
}}
active [D] proctype copy_engine() {{
  byte s = _pid - 1;
end: do
  :: d_step {{ loading[s]; loading[s] = 0; content[s] = incoming[s]; incoming[s] = 0;
               full_bytes[s]--; close_full(s) }}
  od
}}
active [C] proctype tensor_pipe() {{
  byte c = _pid - 1 - D;
end: do
  :: d_step {{ groups[c] > 0; reading[oldest[c] % D]--; oldest[c] = (oldest[c] + 1) % M;
               groups[c]-- }}
  od
}}
active [C] proctype consumer() {{
  byte c = _pid - 1 - D - C; byte t; bool some; byte open;
  do
  :: full_phase[t % D] != ((t / D) % 2);
     d_step {{ assert(!loading[t % D] && content[t % D] == t); reading[t % D]++; open = 1 }};
     d_step {{ open = 0; groups[c]++ }};
     groups[c] <= 1;
     if :: some -> d_step {{ release((t + M - 1) % D); t = (t + 1) % M }}
        :: else -> d_step {{ some = 1; t = (t + 1) % M }} fi
  :: ended && t == last -> break
  od;
  groups[c] == 0;
  if :: some -> release((t + M - 1) % D) :: else fi
}}
"""


def run_spin(depth: int, consumers: int, runs: int) -> dict[str, object]:
    """Build the verifier once, run it `runs` times; seconds are those of the search alone."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "ring.pml").write_text(ring_promela(depth, consumers), encoding="utf-8")
        subprocess.run(["spin", "-a", "ring.pml"], cwd=folder, check=True, capture_output=True)
        subprocess.run(
            ["gcc", "-O3", "-DSAFETY", "-w", "-o", "pan", "pan.c"], cwd=folder, check=True
        )
        seconds, text = [], ""
        for _ in range(runs):
            begin = time.perf_counter()
            done = subprocess.run(
                ["./pan", "-m1000000", "-w24"], cwd=folder, check=True, capture_output=True,
                text=True,
            )  # fmt: skip
            seconds.append(time.perf_counter() - begin)
            text = done.stdout
    lines = text.splitlines()
    states = next(int(float(line.split()[0])) for line in lines if "states, stored" in line)
    errors = next(int(line.split("errors:")[1]) for line in lines if "errors:" in line)
    return {
        "depth": depth, "consumers": consumers, "states": states, "errors": errors,
        "seconds": statistics.median(seconds), "runs": runs,
        "states_per_second": states / statistics.median(seconds),
    }  # fmt: skip


def run_once(depth: int, consumers: int, reductions: Reductions) -> dict[str, object]:
    """One search in this process: verdict, states, seconds from program to verdict."""
    begin = time.perf_counter()
    result = explore(
        ring(depth, consumers), budget=Budget(40_000_000, 600.0, 2**32), reductions=reductions
    )
    seconds = time.perf_counter() - begin
    return {
        "verdict": result.verdict.value, "states": result.states, "scope": result.scope,
        "transitions": result.transitions, "seconds": seconds, "store_bytes": result.bytes,
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }  # fmt: skip


def run_titan(depth: int, consumers: int, mode: str, runs: int) -> dict[str, object]:
    """Medians over fresh processes, so that peak memory is that of one search."""
    command = [sys.executable, __file__, "--one", str(depth), str(consumers), mode]
    rows = [json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
            for _ in range(runs)]  # fmt: skip
    seconds = statistics.median(row["seconds"] for row in rows)
    return {
        "depth": depth, "consumers": consumers, "reductions": mode, **rows[0],
        "seconds": seconds, "runs": runs, "states_per_second": rows[0]["states"] / seconds,
        "peak_bytes": max(row["peak_bytes"] for row in rows),
    }  # fmt: skip


MODES = {
    "none": Reductions(False, False),
    "symmetry": Reductions(True, False),
    "all": Reductions(True, True),
}


def machine() -> dict[str, object]:
    """What the numbers were measured on."""
    model = platform.processor()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        model = names[0].split(":", 1)[1].strip() if names else model
    return {
        "cpu": model, "cores": os.cpu_count(), "system": platform.system(),
        "python": platform.python_version(),
    }  # fmt: skip


def show(kind: str, row: dict[str, object]) -> None:
    print(
        f"{kind:14} D={row['depth']} C={row['consumers']} {row['states']:>9} states "
        f"{row['seconds']:9.3f} s {row['states_per_second']:>10.0f} states/s"
        + (f" {int(row['peak_bytes']) / 2**20:7.0f} MiB" if "peak_bytes" in row else ""),
        flush=True,
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--spin", action="store_true", help="run Spin as peer (about 2 minutes)")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        depth, consumers, mode = options.one
        print(json.dumps(run_once(int(depth), int(consumers), MODES[mode])))
        return
    report: dict[str, list[dict[str, object]]] = {"titan": [], "titan_growth": [], "spin": []}
    for depth, consumers in (*SPIN_SIZES, *TARGET_SIZES):
        report["titan"].append(run_titan(depth, consumers, "all", options.runs))
        show("titan", report["titan"][-1])
    for depth, consumers in SPIN_SIZES:
        for mode in ("symmetry", "none"):
            report["titan"].append(run_titan(depth, consumers, mode, 3))
            show(f"titan {mode}", report["titan"][-1])
    for depth, consumers in GROWTH:
        report["titan_growth"].append(run_titan(depth, consumers, "all", 3))
        show("titan growth", report["titan_growth"][-1])
    if options.spin and shutil.which("spin"):
        for depth, consumers in SPIN_SIZES:
            report["spin"].append(run_spin(depth, consumers, 3))
            show("spin", report["spin"][-1])
    if options.out:
        text = json.dumps({"machine": machine(), **report}, indent=1)
        options.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
