"""Kernels just beyond where the explorer used to give up, each for every number of its open sizes.

`python benchmarks/bench_cliffs.py [--only NAME ...] [--states N]` prints one line a kernel: the
verdict, states, processor seconds, and the reason where nothing was decided. The kernels are made
here, each with one thing that is large: operations in flight, CTAs, stages, reads of a stage, or a
nest of loops whose numbers are open.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from titan.engines.explore.search import explore
from titan.engines.result import Budget
from titan.foundation.errors import Refusal
from titan.language.kernel.decode import decode_text
from titan.sync.program import SyncProgram
from titan.verify.lowering import sync_program

HEAD = "titan: 1\nkernel: {name}\ntarget: sm_90a\n"


def program_of(text: str) -> SyncProgram:
    """The sync program of a kernel file with one kernel."""
    family, diagnostics = decode_text(text, "cliff.yaml")
    assert family is not None, [item.headline for item in diagnostics]
    return sync_program(family.kernels[0]).program


def rings(count: int, depth: int) -> str:
    """`count` rings of `depth` stages between one producer and one consumer."""
    names = [f"r{n}" for n in range(count)]
    lines = [HEAD.format(name=f"rings_{count}_{depth}") + f"sizes: {{tiles: any, depth: {depth}}}"]
    lines += ["buffers:"]
    lines += [f"  b{n}: {{space: shared, stages: depth, bytes: 128}}" for n in names]
    lines += ["rings:"]
    lines += [f"  {n}: {{buffers: [b{n}], depth: depth}}" for n in names]
    lines += ["roles:", "  producer: {warps: 1}", "  consumer: {warps: 1}", "program:"]
    lines += ["  producer:", "    - for: t in 0..tiles", "      do:"]
    lines += [f"        - acquire: {n}[t]\n        - produce: {n}[t]" for n in names]
    lines += ["    - finalize", "  consumer:", "    - for: t in 0..tiles", "      do:"]
    for n in names:
        lines += [
            f"        - wait: {n}[t]",
            f"        - read: {n}[t]",
            f"        - release: {n}[t]",
        ]
    return "\n".join([*lines, "    - finalize", ""])


def reads(count: int) -> str:
    """A ring whose consumer reads each stage `count` times."""
    loads = "\n".join("        - load: S[t % 2] = t" for _ in range(count))
    return (
        HEAD.format(name=f"reads_{count}")
        + f"""sizes: {{tiles: any}}
buffers:
  S: {{stages: 2, bytes: 4096}}
barriers:
  full: {{stages: 2, count: 1}}
  empty: {{stages: 2, count: 1}}
roles:
  producer: {{warps: 1}}
  consumer: {{warps: 1}}
program:
  producer:
    - for: t in 0..tiles
      do:
        - {{wait: "empty[t % 2]", phase: t // 2 - 1}}
        - {{arrive: "full[t % 2]", bytes: 4096}}
        - {{bulk_load: "S[t % 2] = t", completes: "full[t % 2]"}}
  consumer:
    - for: t in 0..tiles
      do:
        - {{wait: "full[t % 2]", phase: t // 2}}
{loads}
        - fence: async
        - {{arrive: "empty[t % 2]"}}
"""
    )


def multicast(ctas: int) -> str:
    """A cluster in which every CTA multicasts its part of a tile to all."""
    arrivals = "\n".join(
        f'        - {{arrive: "empty[t % depth]@{n}", scope: cluster}}' for n in range(ctas)
    )
    return (
        HEAD.format(name=f"multicast_{ctas}")
        + f"""ctas: {ctas}
sizes: {{tiles: any, depth: 2}}
buffers:
  B: {{stages: depth, parts: {ctas}, bytes: {1024 * ctas}}}
barriers:
  full: {{stages: depth, count: 1}}
  empty: {{stages: depth, count: {ctas}}}
named_barriers:
  cluster: {{scope: cluster, threads: {ctas * 64}}}
roles:
  producer: {{warps: 1}}
  consumer: {{warps: 1}}
program:
  producer:
    - for: t in 0..tiles
      do:
        - {{wait: "empty[t % depth]", phase: t // depth - 1, scope: cluster}}
        - {{arrive: "full[t % depth]", bytes: {1024 * ctas}}}
        - bulk_load: B[t % depth, cta] = t
          completes: full[t % depth]
          bytes: 1024
          multicast: all
    - sync: cluster
  consumer:
    - for: t in 0..tiles
      do:
        - {{wait: "full[t % depth]", phase: t // depth}}
        - load: B[t % depth] = t
        - fence: async
{arrivals}
    - sync: cluster
"""
    )


def separate(ctas: int) -> str:
    """CTAs that each run the same ring and do not touch each other."""
    return (
        HEAD.format(name=f"separate_{ctas}")
        + f"""ctas: {ctas}
sizes: {{tiles: any, depth: 2}}
buffers:
  S: {{stages: depth, bytes: 4096}}
barriers:
  full: {{stages: depth, count: 1}}
  empty: {{stages: depth, count: 1}}
roles:
  producer: {{warps: 1}}
  consumer: {{warps: 1}}
program:
  producer:
    - for: t in 0..tiles
      do:
        - {{wait: "empty[t % depth]", phase: t // depth - 1}}
        - {{arrive: "full[t % depth]", bytes: 4096}}
        - {{bulk_load: "S[t % depth] = t", completes: "full[t % depth]"}}
  consumer:
    - for: t in 0..tiles
      do:
        - {{wait: "full[t % depth]", phase: t // depth}}
        - load: S[t % depth] = t
        - fence: async
        - {{arrive: "empty[t % depth]"}}
"""
    )


def nested(sizes: str) -> str:
    """A persistent ring: `work` items of `k` tiles each, a counter of tiles of its own."""
    ring = HEAD.format(name="nested") + f"sizes: {{{sizes}, depth: 2}}\n"
    return (
        ring
        + """buffers:
  S: {stages: depth, bytes: 4096}
barriers:
  full: {stages: depth, count: 1}
  empty: {stages: depth, count: 1}
roles:
  producer: {warps: 1, counters: {i: 0}}
  consumer: {warps: 1, counters: {i: 0}}
program:
  producer:
    - for: w in 0..work
      do:
        - for: k in 0..n
          do:
            - {wait: "empty[i % depth]", phase: i // depth - 1}
            - {arrive: "full[i % depth]", bytes: 4096}
            - {bulk_load: "S[i % depth] = i", completes: "full[i % depth]"}
            - count: {i: i + 1}
  consumer:
    - for: w in 0..work
      do:
        - for: k in 0..n
          do:
            - {wait: "full[i % depth]", phase: i // depth}
            - load: S[i % depth] = i
            - fence: async
            - {arrive: "empty[i % depth]"}
            - count: {i: i + 1}
"""
    )


def products() -> str:
    """The same ring, which names a tile by `w * n + k` and keeps no counter."""
    text = nested("work: any, n: any").replace(", counters: {i: 0}", "")
    text = text.replace("            - count: {i: i + 1}\n", "")
    return (
        text.replace("= i", "= w * n + k")
        .replace("i %", "(w * n + k) %")
        .replace("i //", "(w * n + k) //")
    )


def unrolled(count: int) -> str:
    """A ring whose loop is unrolled: `count` waits of each of two roles a turn."""
    fill = [f"        - acquire: r[{count} * t + {n}]\n        - produce: r[{count} * t + {n}]"
            for n in range(count)]  # fmt: skip
    use = [f"        - wait: r[{count} * t + {n}]\n        - read: r[{count} * t + {n}]\n"
           f"        - release: r[{count} * t + {n}]" for n in range(count)]  # fmt: skip
    head = HEAD.format(name=f"unrolled_{count}") + "sizes: {tiles: any, depth: 4}\n"
    head += "buffers:\n  b: {space: shared, stages: depth, bytes: 128}\n"
    head += "rings:\n  r: {buffers: [b], depth: depth}\n"
    head += "roles:\n  producer: {warps: 1}\n  consumer: {warps: 1}\nprogram:\n"
    turn = "    - for: t in 0..tiles\n      do:"
    bodies = (("producer", fill), ("consumer", use))
    roles = ["\n".join([f"  {name}:", turn, *body, "    - finalize"]) for name, body in bodies]
    return head + "\n".join([*roles, ""])


def prologue() -> str:
    """A warp that fills `depth` stages first, with plain indices and a guard."""
    return (
        HEAD.format(name="prologue")
        + """sizes: {tiles: any, depth: 2}
buffers:
  S: {stages: depth, bytes: 4096}
barriers:
  full: {stages: depth, count: 1}
roles:
  warp: {warps: 1}
program:
  warp:
    - for: t in 0..depth
      do:
        - if: t < tiles
          then:
            - {arrive: "full[t]", bytes: 4096}
            - {bulk_load: "S[t] = t", completes: "full[t]"}
    - for: t in 0..tiles
      do:
        - {wait: "full[t % depth]", phase: t // depth}
        - load: S[t % depth] = t
        - fence: async
        - if: t + depth < tiles
          then:
            - {arrive: "full[t % depth]", bytes: 4096}
            - {bulk_load: "S[t % depth] = t + depth", completes: "full[t % depth]"}
"""
    )


CASES: dict[str, Callable[[], str]] = {
    "26 rings of 2": lambda: rings(26, 2),
    "depth 49": lambda: rings(1, 49),
    "depth 128": lambda: rings(1, 128),
    "multicast, 2 CTAs": lambda: multicast(2),
    "multicast, 4 CTAs": lambda: multicast(4),
    "multicast, 8 CTAs": lambda: multicast(8),
    "multicast, 16 CTAs": lambda: multicast(16),
    "separate, 1 CTA": lambda: separate(1),
    "separate, 2 CTAs": lambda: separate(2),
    "separate, 16 CTAs": lambda: separate(16),
    "nested, no per": lambda: nested("work: any, n: any"),
    "nested, per from 1": lambda: nested("work: any, n: {any: true, per: w, minimum: 1}"),
    "nested, per from 0": lambda: nested("work: any, n: {any: true, per: w}"),
    "nested, w * n + k": products,
    "prologue": prologue,
    "2000 reads of a stage": lambda: reads(2000),
    "1000 waits a turn": lambda: unrolled(500),
}


def lines(names: list[str], budget: Budget) -> Iterator[str]:
    """One line a case, as it is decided."""
    for name, make in CASES.items():
        if names and not any(wanted in name for wanted in names):
            continue
        begin = time.process_time()
        program = program_of(make())
        try:
            result = explore(program, None, budget)
            verdict, states, why = result.verdict.value, result.states, result.remark
        except Refusal as refusal:
            verdict, states, why = "undecided", 0, str(refusal)
        seconds = time.process_time() - begin
        yield f"{name:24} {verdict:10} {states:9} states {seconds:8.2f} s  {why}".rstrip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=[], help="cases whose name contains this")
    parser.add_argument("--states", type=int, default=2_000_000)
    parser.add_argument("--seconds", type=float, default=60.0)
    given = parser.parse_args()
    for line in lines(given.only, Budget(given.states, given.seconds)):
        print(line, flush=True)


if __name__ == "__main__":
    main()
