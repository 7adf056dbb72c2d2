"""Wait counters on paper: copies left in flight, and protocols that counters cannot say.

First table: for every wait for copies of every AMD pipeline, how many direct-to-LDS copies of one
wave may stay in flight when it is passed, against the form with vmcnt(0) everywhere (none). The
numbers are counted by walking one wave through the verified sync program of the pipeline. Second
table: ring protocols that are asked for on a target with wait counters, whether they are refused as
they stand (the code of the refusal), which rewrites then give them a form, and the verdict on it.
Third table (`--corpus`): how many of some 240 protocols, generated and of the library, are taken as
they stand, taken after rewrites, and refused, with the reasons.

Run: python -m benchmarks.virtual_tokens [--corpus] [--output FILE] [--page PAGE]
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from benchmarks.pages import write_between
from titan.codegen.pipeline.cdna import LANES, construct, lane_bytes, shapes, tile_bytes
from titan.codegen.pipeline.model import FormRefused, Shape
from titan.codegen.pipeline.printer import pipeline_text
from titan.codegen.tile.held import loads_of
from titan.codegen.tile.load import load_tile, targets_of
from titan.codegen.tile.model import TileProgram
from titan.foundation.resources import root
from titan.foundation.verdict import Verdict
from titan.language.kernel.decode import decode_text
from titan.language.kernel.model import Kernel
from titan.sync import program as ir
from titan.sync.expression import evaluate
from titan.verify.model import VerifyOptions
from titan.verify.pipeline import verify_kernel

OPTIONS = VerifyOptions(save_traces=None, require="any")
TRIPS = 32
MARKS = ("<!-- virtual tokens -->", "<!-- end of virtual tokens -->")
REWRITES = ("transport", "group", "depth", "unspecialise")


# ------------------------------------------------------------------ copies in flight at each wait


@dataclass(frozen=True)
class Flight:
    """One pipeline. Copies are instructions of one wave; `steady` is in the middle of the loop."""

    tile: str
    target: str
    waves: int
    form: str
    depth: int
    copies_a_turn: int
    steady_copies: int
    steady_bytes: int  # of the workgroup
    mean_copies: float
    last_copies: int
    plain_copies: int
    verdict: str


def flights() -> Iterator[Flight]:
    """The first form that the target takes, of every tile program."""
    for path in sorted((root("protocols") / "tiles").glob("*.yaml")):
        for target in targets_of(path):
            if not target.startswith("gfx"):
                continue
            tile = load_tile(path, target=target)
            for shape in shapes(tile):
                try:
                    yield flight(tile, shape)
                except FormRefused:
                    continue
                break


def flight(tile: TileProgram, shape: Shape) -> Flight:
    """Raises FormRefused."""
    kernel = kernel_of(pipeline_text(construct(tile, shape)))
    plain = kernel_of(pipeline_text(construct(tile, replace(shape, overlapped=False))))
    each = sum(
        tile_bytes(load.result) // (LANES * tile.groups * (lane_bytes(tile, load.result) or 16))
        for load in loads_of(tile)
        if load.result is not None and load in tile.body
    )
    counts = [each * left for left in left_in_flight(kernel)]
    turn = sum(tile_bytes(load.result) for load in tile.body if load.kind == "load" and load.result)
    middle = counts[len(counts) // 2]
    return Flight(
        tile.name, tile.target, tile.groups, shape.name.split(", ")[-1], shape.depth, each, middle,
        middle // each * turn, round(sum(counts) / len(counts), 2), counts[-1],
        max(left_in_flight(plain)), str(verify_kernel(kernel, OPTIONS).verdict),
    )  # fmt: skip


def kernel_of(text: str) -> Kernel:
    family, errors = decode_text(text, "pipeline.yaml")
    assert family is not None, [item.headline for item in errors]
    return family.kernels[0]


def left_in_flight(kernel: Kernel) -> list[int]:
    """Operations of wave 0 that each executed wait for copies leaves unfinished, at most."""
    assert kernel.program is not None
    copies = {name for name, kind in kernel.placement.kinds if kind == "vmcnt"}
    flying, found = 0, []

    def walk(block: ir.Block, names: dict[str, int]) -> None:
        nonlocal flying
        for item in block:
            if isinstance(item, ir.Loop):
                for value in range(evaluate(item.start, names), evaluate(item.stop, names)):
                    walk(item.body, {**names, item.variable: value})
            elif isinstance(item, ir.Branch):
                walk(item.then if evaluate(item.condition, names) else item.otherwise, names)
            elif isinstance(item, ir.Asynchronous) and item.queue in copies:
                flying += 1
            elif isinstance(item, ir.QueueWait) and item.queue in copies:
                flying = min(flying, evaluate(item.pending, names))
                found.append(flying)

    role = kernel.program.roles[0]
    walk(role.body, {"tiles": TRIPS, role.agent_constant: 0})
    return found


# ------------------------------------------------------------------ what counters cannot say


@dataclass(frozen=True)
class Configuration:
    """A protocol asked for on a target with wait counters, and what became of it."""

    name: str
    target: str
    refused: str  # the code of the refusal, or nothing
    reason: str
    fallback: str  # the rewrites that gave it a form
    notes: tuple[str, ...]
    verdict: str
    still_wrong: str
    seconds: float


def ring_kernel(depth: int, distance: int, buffers: int, columns: int, body: str = "") -> str:
    """All waves fill and read; `body`: in place of waiting for tile after tile."""
    names = [f"B{number}" for number in range(buffers)]
    tile = f"{{tile: [128, {columns}], dtype: f16}}"
    default = f"""
        - if: t >= {distance}
          then:
            - wait: ring[t - {distance}]
            - read: ring[t - {distance}]
            - release: ring[t - {distance}]"""
    return f"""titan: 1
kernel: ring
target: gfx942
sizes: {{tiles: any}}
buffers:
{chr(10).join(f"  {name}: {tile}" for name in names)}
rings:
  ring: {{buffers: [{", ".join(names)}], depth: {depth}}}
roles:
  wave: {{warps: 2}}
program:
  wave:
    - for: t in 0..tiles + {distance}
      do:
        - if: t < tiles
          then:
            - acquire: ring[t]
            - produce: ring[t]{body or default}
"""


def two_rings(first: str, second: str) -> str:
    return f"""titan: 1
kernel: two_rings
target: gfx942
sizes: {{tiles: any}}
buffers:
  A: {{tile: [128, 16], dtype: f16}}
  B: {{tile: [128, 16], dtype: f16}}
rings:
  a: {{buffers: [A], depth: 2}}
  b: {{buffers: [B], depth: 2}}
roles:
  wave: {{warps: 2}}
program:
  wave:
    - for: t in 0..tiles
      do:
        - acquire: [a[t], b[t]]
        - produce: [a[t], b[t]]
        - wait: {first}[t]
        - read: {first}[t]
        - wait: {second}[t]
        - read: {second}[t]
        - release: [a[t], b[t]]
"""


SPECIALISED = """titan: 1
kernel: specialised
target: gfx942
sizes: {tiles: any, depth: DEPTH}
buffers:
  A: {stages: depth, tile: [128, 16], dtype: f16}
rings:
  ring: {buffers: [A], depth: depth}
roles:
  producer: {warps: 1}
  consumer: {warps: 3}
program:
  producer:
    - for: t in 0..tiles
      do:
        - acquire: ring[t]
        - produce: ring[t]
  consumer:
    - for: t in 0..tiles
      do:
        - wait: ring[t]
        - read: ring[t]
        - release: RELEASE
"""
LATE = "ring[t - 1]\n          when: t >= 1\n    - release: ring[tiles - 1]\n      when: tiles >= 1"

FOUR_WAVES = (
    ("target: sm_90a", "target: gfx942"),
    ("tile: [128, 64]", "tile: [128, 16]"),
    ("tile: [64, 256]", "tile: [16, 128]"),
    ("{warps: 1, registers: 40}", "{warps: 1}"),
    ("{warpgroups: 2, registers: 232}", "{warps: 3}"),
)


def asked_for() -> Iterator[tuple[str, str]]:
    """Names and kernel files."""
    for distance in (1, 2, 3, 5):
        yield f"one ring, {distance} ahead", ring_kernel(distance + 1, distance, 1, 16)
    yield "two buffers, 3 ahead", ring_kernel(4, 3, 2, 16)
    yield "32 copies a tile, 3 ahead", ring_kernel(4, 3, 1, 64)
    yield "48 copies a tile, more LDS than there is", ring_kernel(4, 3, 1, 96)
    yield "two rings, waited for in order", two_rings("a", "b")
    yield "two rings, waited for the other way round", two_rings("b", "a")
    for depth in (1, 2, 3):
        text = SPECIALISED.replace("DEPTH", str(depth))
        yield f"a loading wave, depth {depth}", text.replace("RELEASE", "ring[t]")
    late = SPECIALISED.replace("DEPTH", "3").replace("RELEASE", LATE)
    yield "a loading wave, released one tile late", late
    text = (root("protocols") / "hopper_gemm.yaml").read_text(encoding="utf-8")
    for old, new in FOUR_WAVES:
        text = text.replace(old, new)
    yield "hopper_gemm with four waves and tiles that fit", text
    for name in ("hopper_gemm", "hopper_gemm_persistent", "fa3_forward"):
        text = (root("protocols") / f"{name}.yaml").read_text(encoding="utf-8")
        yield f"{name} of the library", text.replace("target: sm_90a", "target: gfx942")


def corpus() -> Iterator[tuple[str, str]]:
    """The protocols above, a grid around them, and every kernel of the library for gfx942."""
    yield from asked_for()
    for depth in range(2, 7):
        for distance in range(1, depth + 1):
            for buffers in (1, 2, 3):
                for columns in (8, 16, 32):
                    name = f"ring of {depth}, {distance} ahead, {buffers} x {columns} columns"
                    yield name, ring_kernel(depth, distance, buffers, columns)
    for order in ("ab", "ba"):
        for depth in (3, 4, 5):
            text = two_rings(*order).replace("depth: 2", f"depth: {depth}")
            yield f"two rings of {depth}, waited for as {order}", text
    for depth in range(1, 6):
        for consumers in (1, 2, 7):
            for release in ("ring[t]", LATE):
                late = "late" if release == LATE else "at once"
                text = SPECIALISED.replace("DEPTH", str(depth)).replace("RELEASE", release)
                text = text.replace("consumer: {warps: 3}", f"consumer: {{warps: {consumers}}}")
                yield f"a loading wave and {consumers}, depth {depth}, released {late}", text
    for path in sorted(root("protocols").glob("*.yaml")):
        text = path.read_text(encoding="utf-8")
        for target in ("sm_80", "sm_90a", "sm_100a"):
            text = text.replace(f"target: {target}", "target: gfx942")
        yield f"{path.stem}, for gfx942", text


@dataclass(frozen=True)
class Rates:
    """What became of a corpus. `reasons`: codes of what was refused as written, with counts."""

    configurations: int
    unreadable: int  # the target has no such roles, memories or instructions: refused when read
    as_they_stand: int
    after_rewrites: int
    refused: int
    undecided: int
    fallbacks: tuple[tuple[str, int], ...]
    reasons: tuple[tuple[str, int], ...]


def rates(texts: Iterable[tuple[str, str]]) -> Rates:
    """Accepted and refused, with reasons; what is not decided is neither."""
    outcomes, fallbacks, reasons = Counter[str](), Counter[str](), Counter[str]()
    for name, text in texts:
        family, errors = decode_text(text, f"{name}.yaml")
        if family is None:
            outcomes["unreadable"] += 1
            reasons[errors[0].code] += 1
            continue
        row = configuration(name, text)
        if row.refused:
            reasons[row.refused] += 1
        verified = row.verdict == str(Verdict.VERIFIED)
        if verified and row.fallback:
            outcomes["after rewrites"] += 1
            fallbacks[row.fallback.split(", ")[-1]] += 1
        elif verified:
            outcomes["as written"] += 1
        else:
            outcomes["undecided" if row.verdict == str(Verdict.UNDECIDED) else "refused"] += 1
    return Rates(
        sum(outcomes.values()), outcomes["unreadable"], outcomes["as written"],
        outcomes["after rewrites"], outcomes["refused"], outcomes["undecided"],
        tuple(sorted(fallbacks.items())), tuple(sorted(reasons.items())),
    )  # fmt: skip


def print_rates(found: Rates) -> None:
    print("\n| outcome | protocols | share |\n| --- | --- | --- |")
    for name, count in (
        ("accepted as written", found.as_they_stand),
        ("accepted after rewrites", found.after_rewrites),
        ("refused", found.refused),
        ("refused on reading", found.unreadable),
        ("undecided", found.undecided),
        ("all", found.configurations),
    ):
        print(f"| {name} | {count} | {count / found.configurations:.1%} |")
    print("\n| last rewrite needed | protocols |\n| --- | --- |")
    for name, count in found.fallbacks:
        print(f"| {name} | {count} |")
    print("\n| first refusal as written | protocols |\n| --- | --- |")
    for name, count in found.reasons:
        print(f"| {name} | {count} |")


def configuration(name: str, text: str) -> Configuration:
    """Asked for as written, then with ever more rewrites until a form is verified."""
    started = time.monotonic()
    family, errors = decode_text(text, f"{name}.yaml")
    if family is None:
        raise ValueError(f"{name}: {errors[0].headline}")
    kernel = family.kernels[0]
    first = verify_kernel(kernel, OPTIONS)
    codes = [item for item in first.diagnostics if item.severity == "error"]
    refused, reason = (codes[0].code, codes[0].headline) if codes else ("", "")
    found, taken = first, ""
    if first.verdict is not Verdict.VERIFIED:
        for count in range(1, len(REWRITES) + 1):
            allowed = REWRITES[:count]
            found = verify_kernel(kernel, replace(OPTIONS, rewrites=frozenset(allowed)))
            if found.verdict is Verdict.VERIFIED:
                taken = ", ".join(allowed)
                break
    seconds = round(time.monotonic() - started, 3)
    notes = tuple(found.notes)
    wrong = [f"{item.code}: {item.headline}" for item in found.diagnostics]
    still = "" if found.verdict is Verdict.VERIFIED else wrong[0] if wrong else "no reason is given"
    return Configuration(
        name, kernel.target, refused, reason, taken or ("none" if refused else ""), notes,
        str(found.verdict), still, seconds,
    )  # fmt: skip


def flight_lines(rows: list[Flight]) -> Iterator[str]:
    heads = (
        "tile program", "target", "waves", "depth", "form", "copies a turn",
        "left in flight, steady", "bytes of the workgroup", "mean", "last", "vmcnt(0) form",
        "verdict",
    )  # fmt: skip
    yield f"| {' | '.join(heads)} |"
    yield "| --- " * len(heads) + "|"
    for row in rows:
        cells = (
            row.tile, row.target, row.waves, row.depth, row.form, row.copies_a_turn,
            row.steady_copies, row.steady_bytes, row.mean_copies, row.last_copies,
            row.plain_copies, row.verdict,
        )  # fmt: skip
        yield f"| {' | '.join(map(str, cells))} |"


def configuration_lines(rows: list[Configuration]) -> Iterator[str]:
    yield "| asked for | as written | fallback | verdict | still wrong | reported |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for row in rows:
        stands = f"{row.refused}: {row.reason}" if row.refused else "taken"
        yield (
            f"| {row.name} | {stands} | {row.fallback} | {row.verdict} | {row.still_wrong} | "
            f"{'; '.join(row.notes)} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--output", type=Path)
    parser.add_argument("--page", type=Path, help="a page whose tables to make again")
    parser.add_argument("--corpus", action="store_true", help="the third table alone")
    arguments = parser.parse_args()
    if arguments.corpus:
        print_rates(rates(corpus()))
        return
    first = list(flights())
    second = [configuration(name, text) for name, text in asked_for()]
    text = "\n".join((*flight_lines(first), "", *configuration_lines(second)))
    print(text)
    if arguments.page is not None:
        write_between(arguments.page, *MARKS, f"\n{text}\n")
    if arguments.output is not None:
        data = {
            "flights": [asdict(row) for row in first],
            "configurations": [asdict(row) for row in second],
        }
        arguments.output.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
