"""Real kernels with a random fault or two: what is verified of them, beside their numbers.

    python -m benchmarks.computed_mutants FOLDER [--only TEXT] [--mutants 200] [--write]

FOLDER is a corpus as for `benchmarks.real_code`. Lines of a kernel are deleted, moved or changed
at random: not only what synchronises, also addresses, registers, guards and operations. The first
cluster of each mutant is judged; one that is verified is executed with numbers under ten schedules
and speeds of the engines, and has to leave the same memory in all. Left out is what rests on the
reading that `wgmma.wait_group` of one warp waits for its warpgroup, which the executed machine does
not grant. Kernels whose data are addresses are no candidates: random ones are misaligned. `--write`
puts the table into docs/reference/real_code.md.
"""

from __future__ import annotations

import argparse
import re
import struct
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import numpy as np
from numpy.typing import NDArray

from benchmarks.bench_real_code import SpeedCase, read_case
from benchmarks.real_code import Row, table_text, write
from titan.foundation.source.span import Source
from titan.foundation.verdict import Verdict
from titan.frontends.ptx.machine import Runner
from titan.frontends.ptx.places import CodePlaces
from titan.frontends.ptx.policies import CodePolicies
from titan.frontends.ptx.remarks import REMARKS
from titan.frontends.ptx.trial import judge_run
from titan.isa.numbers.native import CoreOptions
from titan.isa.numbers.run import compute
from titan.isa.ptx.module import Module
from titan.isa.ptx.parse import parse_source
from titan.isa.simt.launch import Launch, Options
from titan.isa.simt.outcome import Ending

HEAD: Row = ("file", "mutants", "verified", "refuted", "undecided", "not run", "executed", "differ")
SCHEDULES = (
    (0, "turn", "soon"), (0, "turn", "late"), (1, "starve", "early"), (2, "ahead", "late"),
    (3, "starve", "late"), (5, "ahead", "random"), (7, "turn", "random"), (8, "starve", "random"),
    (9, "starve", "soon"), (11, "ahead", "early"),
)  # fmt: skip
FILES = (
    "cutlass_pingpong", "cutlass_cooperative_cluster2", "cuda_simple_ws",
    "gluon_ws_gemm_sm90_d3_seeded0", "gluon_ws_gemm_sm100_d3_seeded0", "triton_attention_sm90_ws0",
    "triton_attention_sm100_ws0", "triton_gemm_pointers_sm90_s2", "triton_gemm_pointers_sm100_s2",
    "triton_gemm_sm90_64x128x64_w4_ws1_s3", "triton_gemm_sm90_128x128x64_w4_ws0_s3",
    "triton_gemm_sm100_128x128x64_w4_ws1_s3", "triton_softmax_sm90", "triton_layernorm_sm90",
    "triton_split_k_sm90",
)  # fmt: skip
POINTERS = range(0x1000_0000_0000, 0x7FFF_FFFF_0000, 16)  # of the processes that were recorded
POINTED_BYTES, ARRAY_BYTES_MAX = 1 << 20, 1 << 26
STEPS_MAX, COMPUTED_STEPS_MAX = 400_000, 3_000_000
NEAR_LINES = 12
OTHERS = (
    ("setp.eq", "setp.ne"), ("setp.ne", "setp.eq"), ("setp.lt", "setp.le"), ("setp.le", "setp.lt"),
    ("setp.gt", "setp.ge"), ("setp.ge", "setp.gt"), (".release", ".relaxed"), ("add.", "sub."),
    (".acquire", ".relaxed"), ("and.", "or."), ("or.", "and."), ("shl.", "shr."), ("shr.", "shl."),
)  # fmt: skip
_INSTRUCTION = re.compile(r"\s*(@!?%p\d+\s+)?[a-z][\w.:]*\s.*;")
_CONCERNS = re.compile(r"mbarrier|bar\.|fence|wgmma|cp\.async|tcgen05|shared|elect|shfl")
_NUMBER = re.compile(r"(?<![\w%.$])-?\d+(?=[\s,;\]\)}])")

Lines = list[str]
Memory = list[tuple[int, NDArray[np.uint8]]]


@dataclass(slots=True)
class MutatedText:
    """The lines of a kernel, and which of them are instructions, and concern others."""

    lines: Lines
    instructions: list[int]
    concerning: list[int]

    @classmethod
    def of(cls, text: str) -> MutatedText:
        """The text; nothing before its first brace is changed."""
        lines = text.split("\n")
        first = next(n for n, line in enumerate(lines) if line.strip() == "{")
        found = [
            n
            for n in range(first, len(lines))
            if _INSTRUCTION.match(lines[n]) and "ret;" not in lines[n]
        ]
        return cls(lines, found, [n for n in found if _CONCERNS.search(lines[n])])

    def mutant(self, random: Random) -> str:
        """The text with up to three changes."""
        lines = list(self.lines)
        for _ in range(random.choice((1, 1, 1, 2, 2, 3))):
            at = random.choice(random.choice((self.concerning, self.instructions)))
            random.choice(CHANGES)(self, lines, at, random)
        return "\n".join(lines)

    def near(self, at: int, what: str) -> list[str]:
        """What the lines around one mention."""
        around = self.lines[max(0, at - NEAR_LINES) : at + NEAR_LINES]
        return re.findall(what, "\n".join(around))


Change = Callable[[MutatedText, Lines, int, Random], None]


def _deleted(text: MutatedText, lines: Lines, at: int, random: Random) -> None:
    lines[at] = "//" + lines[at]


def _other_number(text: MutatedText, lines: Lines, at: int, random: Random) -> None:
    found = list(_NUMBER.finditer(lines[at]))
    if found:
        one = random.choice(found)
        value = int(one.group())
        value += random.choice((1, -1, 2, 8, 16, 32, 64, -64, 128, 1024, 4096, -value, value))
        lines[at] = f"{lines[at][: one.start()]}{value}{lines[at][one.end() :]}"


def _other_register(text: MutatedText, lines: Lines, at: int, random: Random) -> None:
    kind = random.choice((r"%r\d+\b", r"%rd\d+\b", r"%p\d+\b"))
    found = list(re.finditer(kind, lines[at]))
    if found:
        one = found[-1] if random.random() < 0.5 else random.choice(found)
        other = random.choice(text.near(at, kind) or [one.group()])
        lines[at] = lines[at][: one.start()] + other + lines[at][one.end() :]


def _other_guard(text: MutatedText, lines: Lines, at: int, random: Random) -> None:
    if "@" in lines[at]:
        old, new = random.choice((("@!%", "@%"), ("@%", "@!%"), (r"@!?%p\d+", "")))
        lines[at] = re.sub(old, new, lines[at], count=1)
    elif guards := text.near(at, r"%p\d+\b"):
        lines[at] = f"@{random.choice(guards)} {lines[at].strip()}"


def _exchanged(text: MutatedText, lines: Lines, at: int, random: Random) -> None:
    other = at + random.choice((-8, -3, -2, -1, 1, 2, 3, 8))
    if other in text.instructions:
        lines[at], lines[other] = lines[other], lines[at]


def _repeated(text: MutatedText, lines: Lines, at: int, random: Random) -> None:
    lines[at] += "\n" + text.lines[random.choice(text.concerning)]


def _other_operation(text: MutatedText, lines: Lines, at: int, random: Random) -> None:
    for old, new in OTHERS:
        if old in lines[at]:
            lines[at] = lines[at].replace(old, new, 1)
            return


CHANGES: tuple[Change, ...] = (
    _deleted, _other_number, _other_register, _other_guard, _exchanged, _repeated, _other_operation,
)  # fmt: skip


def memory_of(launch: Launch) -> Memory:
    """The arrays of a launch, with small whole numbers in float16: every sum of them is exact."""
    ranges = []
    for item in launch.tensor_maps.values():
        rows = zip(item.dimensions[1:], item.stride_bytes, strict=True)
        size = max([item.dimensions[0] * 8, *(count * stride for count, stride in rows)])
        ranges.append((item.base, item.base + min(size, ARRAY_BYTES_MAX)))
    for parameter in launch.parameters:
        words = struct.iter_unpack("<Q", parameter.data[: len(parameter.data) & -8])
        ranges += [(word, word + POINTED_BYTES) for (word,) in words if word in POINTERS]
    merged: list[list[int]] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], high)
        else:
            merged.append([low, high])
    random = np.random.default_rng(1)
    return [
        (low, random.integers(-2, 3, (high - low + 1) // 2).astype(np.float16).view(np.uint8))
        for low, high in merged
    ]


def computed(
    module: Module, launch: Launch, memory: Memory, schedule: tuple[int, str, str]
) -> tuple[Ending | None, list[bytes]]:
    """How the first cluster ends under a schedule, and the memory that it leaves."""
    seed, turns, engines = schedule
    copied = [(low, data.copy()) for low, data in memory]
    options = Options(launch.cluster_members(0), seed, COMPUTED_STEPS_MAX)
    given = replace(launch, memory={low: data.data for low, data in copied}, allocations=())
    found, _ = compute(module, given, options, asked=CoreOptions(False, 1, turns, engines))
    ending = None if found is None else found.run.outcome.ending
    return ending, [data.tobytes() for _, data in copied]


def judged(source: Source, launch: Launch) -> tuple[str, Module | None]:
    """The verdict on the first cluster of a mutant; the module, if it is to be executed."""
    module, _ = parse_source(source)
    if module is None:
        return "not run", None
    run, _ = Runner(module, source, STEPS_MAX).run(launch, 0)
    if run is None or run.outcome.ending not in (Ending.FINISHED, Ending.HUNG):
        return "not run", None
    trial = judge_run(run, ("", ""), "k", CodePlaces(module, source), CodePolicies())
    wide = any(text == REMARKS["warpgroup-wait"] for text, *_ in trial.assumptions)
    whole = trial.verdict is Verdict.VERIFIED and not wide
    return trial.verdict.value, module if whole else None


def differs(module: Module, launch: Launch, memory: Memory) -> bool:
    """Whether schedules disagree about the memory, or one does not end."""
    results = [computed(module, launch, memory, schedule) for schedule in SCHEDULES]
    return any(item != (Ending.FINISHED, results[0][1]) for item in results)


def row(name: str, case: SpeedCase, mutants: int) -> Row:
    """What became of the mutants of one file; those that differ are printed."""
    text, memory = MutatedText.of(case.source.text), memory_of(case.launch)
    _, left = computed(case.module, case.launch, memory, SCHEDULES[0])
    for (_, data), after in zip(memory, left, strict=True):
        if data.tobytes() != after:
            data[:] = 0  # an output, to which kernels add
    counts: Counter[str] = Counter()
    for seed in range(mutants):
        source = Source(f"{name}.ptx", text.mutant(Random(f"{name} {seed}")))
        verdict, module = judged(source, case.launch)
        counts[verdict] += 1
        if module is not None:
            counts["executed"] += 1
            if differs(module, case.launch, memory):
                counts["differ"] += 1
                print(f"{name}: mutant {seed} is verified, and its memory depends on the schedule")
    return (name, str(mutants), *(str(counts[what]) for what in HEAD[2:]))


def main() -> None:
    """Print the rows that the command line asks for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--mutants", type=int, default=200)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    rows: list[Row] = []
    for name in FILES:
        if options.only in name:
            rows.append(row(name, read_case(options.folder, name, 0), options.mutants))
            print(" | ".join(rows[-1]), flush=True)
    if options.write:
        write("computed mutants", table_text(HEAD, rows))


if __name__ == "__main__":
    main()
