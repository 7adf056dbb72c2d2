"""Small kernels with known verdicts."""

from __future__ import annotations

RING = """\
titan: 1
kernel: ring
target: sm_90a
sizes: {tiles: any, depth: 2}
buffers:
  A: {stages: depth, tile: [64, 64], dtype: bf16}
barriers:
  full: {stages: depth, count: 1}
  empty: {stages: depth, count: 2}
queues: {group: wgmma}
roles:
  producer: {warps: 1}
  consumer: {warpgroups: 2}
program:
  producer:
    - for: t in 0..tiles
      do:
        - let: {s: t % depth, round: t // depth}
        - {wait: full_or_empty, phase: round - 1}
        - {arrive: full[s], bytes: 8192}
        - bulk_load: A[s] = t
          completes: full[s]
  consumer:
    - for: t in 0..tiles
      do:
        - {wait: full[t % depth], phase: t // depth}
        - {mma: A[t % depth] = t, queue: group}
        - commit: group
        - drain: {group, leaving: LEAVING}
        - arrive: empty[t % depth]
    - drain: group
""".replace("full_or_empty", "empty[s]")

GOOD = RING.replace("LEAVING", "0")
EARLY = RING.replace("LEAVING", "1")  # releases before the group is done: TTN202
HANGS = GOOD.replace("bytes: 8192", "bytes: 8193")  # TTN205
MISTYPED = GOOD.replace("drain: {group", "drain: {grup")  # bad input
NEVER = GOOD.replace("for: t in 0..tiles", "for: t in tiles..0")  # does nothing
WEAK = """\
titan: 1
kernel: weak
target: sm_90a
buffers: {X: {initial: 0}}
barriers: {b: 1}
roles: {writer: {}, reader: {}}
program:
  writer:
    - store: X = 1
    - {arrive: b, order: relaxed}
  reader:
    - {wait: b, phase: 0, order: relaxed}
    - load: X = 1
"""
PROTOCOL = """\
titan: 1
kernel: handed_on
target: sm_90a
sizes: {tiles: any, depth: 2}
buffers:
  A: {tile: [64, 64], dtype: bf16}
rings:
  operands: {buffers: A, depth: depth}
roles:
  producer: {warps: 1}
  consumer: {warpgroups: 2}
program:
  producer:
    - for: t in 0..tiles
      do:
        - acquire: operands[t]
        - produce: operands[t]
  consumer:
    - for: t in 0..tiles
      do:
        - wait: operands[t]
        - issue: {mma: A[t], as: group}
        - drain: group
        - release: operands[t]
"""
