"""CUTLASS programs on the emulated device: which compile, run, and compute what their host says.

    python -m benchmarks.bench_cutlass CUTLASS --programs FOLDER [--googletest FOLDER]
        [--only TEXT] [--write]

CUTLASS is a checkout of its repository (`include`, `tools/util/include`, `examples`, `test/unit`),
`--programs` where compiled programs are kept, `--googletest` where GoogleTest is installed; nvcc is
needed, and takes one to three minutes of processor time for a program. The sources of
`benchmarks/cutlass/` bring their own reference on the host and compare for equality; examples and
unit tests of CUTLASS check themselves; example 48 includes headers of cuRAND, whose folder CPATH
names where the toolkit has none. Each program, and each unit test by itself, runs under
`titan run --check first`.
`--write` puts the table into docs/reference/cutlass.md and benchmarks/results/cutlass.json, where
rows of other programs stay.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.real_code import RESULTS, Row, store, table_text, write
from titan.emulated.cuda.library import build_flags
from titan.foundation.resources import root

HEAD: Row = ("program", "what", "result", "launches", "verdicts", "seconds", "why")
PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "cutlass.md"
SOURCES = Path(__file__).resolve().parent / "cutlass"
COMMON = ("-std=c++17", "-O1", "--expt-relaxed-constexpr", "-w")
UNUSABLE = 2  # the exit code of `titan run` for a program that cannot be run here
PASSED, FAILED, REFUTED = "passed", "failed", "refuted"
NOT_SUPPORTED, NOT_COMPILED = "not supported", "does not compile"


@dataclass(frozen=True, slots=True)
class Sources:
    """Where things lie: a checkout of CUTLASS, compiled programs, an installed GoogleTest."""

    cutlass: Path
    programs: Path
    googletest: Path

    def flags(self) -> list[str]:
        """What nvcc needs to find headers and libraries."""
        names = ("include", "tools/util/include", "examples/common", "test/unit/common")
        folders = [*(self.cutlass / name for name in names), self.googletest / "include"]
        libraries = [path.parent for path in sorted(self.googletest.glob("lib/**/libgtest.a"))]
        return [*(f"-I{one}" for one in folders), *(f"-L{one}" for one in libraries)]


@dataclass(frozen=True, slots=True)
class CutlassProgram:
    """A program: its source, macros of ours, arguments of its command line, and the device."""

    name: str
    what: str
    source: str
    macros: dict[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    device: str = "h100"
    tests: bool = False  # of GoogleTest, each of which is run by itself


def gemm(name: str, what: str, **macros: str) -> CutlassProgram:
    """A GEMM of `benchmarks/cutlass/gemm.cu`; what is not given is as here."""
    given = {
        "ARCHITECTURE": "Sm90", "ELEMENT": "cutlass::half_t", "OUTPUT": "cutlass::half_t",
        "TILE": "_64,_128,_64", "CLUSTER": "_1,_1,_1", "SCHEDULER": "void",
        "MAINLOOP": "KernelTmaWarpSpecialized", "EPILOGUE": "TmaWarpSpecialized",
        "M": "256", "N": "256", "K": "320", "PROCESSORS": "4", **macros,
    }  # fmt: skip
    device = "h100" if given["ARCHITECTURE"] == "Sm90" else "b200"
    return CutlassProgram(name, what, "gemm.cu", given, device=device)


def unit_tests(name: str, what: str, source: str) -> CutlassProgram:
    """A file of CUTLASS's unit tests."""
    return CutlassProgram(name, what, f"test/unit/{source}", tests=True)


UNIT_TESTS = (
    ("cluster_launch", "unit tests: launches of clusters", "cluster_launch/cluster_launch.cu"),
    ("sequence_barrier", "unit tests: ordered barriers", "pipeline/sequence_barrier.cu"),
    ("pipeline_async", "unit tests: pipelines of threads", "pipeline/pipeline_async.cu"),
    ("pipeline_tma", "unit tests: pipelines of TMA", "pipeline/pipeline_tma_async.cu"),
    ("pipeline_roles", "unit tests: the same, warp-specialised",
     "pipeline/pipeline_tma_async_warp_specialized.cu"),
    ("bulk_load", "unit tests: bulk copies in", "cute/hopper/bulk_load.cu"),
    ("bulk_store", "unit tests: bulk copies out", "cute/hopper/bulk_store.cu"),
    ("tma_multicast", "unit tests: multicast", "cute/hopper/tma_mcast_load.cu"),
    ("stmatrix", "unit tests: stmatrix", "cute/hopper/stsm.cu"),
    ("tma_load", "unit tests: TMA in", "cute/hopper/tma_load.cu"),
    ("tma_store", "unit tests: TMA out", "cute/hopper/tma_store.cu"),
)  # fmt: skip
COOPERATIVE = {
    "TILE": "_128,_128,_64", "MAINLOOP": "KernelTmaWarpSpecializedCooperative",
    "EPILOGUE": "TmaWarpSpecializedCooperative",
}  # fmt: skip
EXAMPLE_48 = "examples/48_hopper_warp_specialized_gemm/48_hopper_warp_specialized_gemm.cu"
PROGRAMS = (
    gemm("warp_specialised", "f16, 64x128x64"),
    gemm("ping_pong", "f16, 64x128x64, two tiles in turns",
         MAINLOOP="KernelTmaWarpSpecializedPingpong"),
    gemm("cooperative", "f16, 128x128x64", **COOPERATIVE),
    gemm("cluster_2x1", "the same, cluster 2x1 with multicast", **COOPERATIVE, CLUSTER="_2,_1,_1"),
    gemm("cluster_2x2", "the same, cluster 2x2", **COOPERATIVE, CLUSTER="_2,_2,_1"),
    gemm("stream_k", "cooperative, tiles split along K", **COOPERATIVE,
         SCHEDULER="cutlass::gemm::StreamKScheduler", K="1024", PROCESSORS="3"),
    gemm("fp8", "e4m3, 128x128x128, sums promoted to f32", **{**COOPERATIVE,
         "TILE": "_128,_128,_128"}, ELEMENT="cutlass::float_e4m3_t", K="512"),
    CutlassProgram(
        "grouped", "three problems, tensor maps replaced on the device", "grouped.cu",
        {"TILE": "_128,_128,_64", "CLUSTER": "_1,_1,_1", "PROCESSORS": "4",
         "MAINLOOP": "KernelPtrArrayTmaWarpSpecializedCooperative",
         "EPILOGUE": "PtrArrayTmaWarpSpecializedCooperative"},
    ),
    CutlassProgram("example_48", "TF32, cluster 4x2, checked on the device", EXAMPLE_48,
                   arguments=("--m=256", "--n=256", "--k=128", "--iterations=0")),
    *(unit_tests(*one) for one in UNIT_TESTS),
    gemm("sm100", "f16, tensor memory, 128x128x64", ARCHITECTURE="Sm100", TILE="_128,_128,_64",
         MAINLOOP="KernelTmaWarpSpecialized1SmSm100", EPILOGUE="TmaWarpSpecialized1Sm"),
    gemm("sm100_pair", "f16, pairs of CTAs, 256x128x64", ARCHITECTURE="Sm100",
         TILE="_256,_128,_64", CLUSTER="_2,_1,_1", MAINLOOP="KernelTmaWarpSpecialized2SmSm100",
         EPILOGUE="TmaWarpSpecialized2Sm"),
)  # fmt: skip


def compiled(program: CutlassProgram, sources: Sources) -> tuple[Path, str]:
    """The executable, made where it is not there, and the compiler's first complaint."""
    made = sources.programs / program.name
    if made.is_file():
        return made, ""
    ours = (SOURCES / program.source).is_file()
    path = (SOURCES if ours else sources.cutlass) / program.source
    macros = [f"#define TITAN_{name} {value}\n" for name, value in program.macros.items()]
    included = [path]
    if program.tests:
        common = sources.cutlass / "test" / "unit" / "common"
        included += [common / "filter_architecture.cpp", SOURCES / "unit_tests.hpp"]
    # A file, as nvcc would part a macro with commas of its command line.
    whole = sources.programs / f"{program.name}.cu"
    lines = [*macros, *(f'#include "{one}"\n' for one in included)]
    whole.write_text("".join(lines), encoding="utf-8")
    architecture = 90 if program.device == "h100" else 100
    command = ["nvcc", *build_flags(architecture), *COMMON, *sources.flags(), str(whole)]
    more = ["-lgtest", "-lpthread"] if program.tests else ["-DNDEBUG"]
    done = subprocess.run(
        [*command, *more, "-o", str(made)], capture_output=True, text=True, check=False
    )
    told = [line for line in done.stderr.splitlines() if "error" in line]
    complaint = (told or [done.stderr[:200]])[0] if done.returncode else ""
    return made, without_folders(complaint)


def without_folders(text: str) -> str:
    """The text with the names of files alone: their folders are those of one machine."""
    return re.sub(r"(?<!\S)/\S*/", "", text)


@dataclass(frozen=True, slots=True)
class Ran:
    """What one run of a program gave."""

    result: str
    why: str
    launches: int
    verdicts: Counter[str]


def ran(program: CutlassProgram, made: Path, arguments: Sequence[str]) -> tuple[Ran, str]:
    """Run a program on the emulated device; returns its output, too."""
    command = [sys.executable, "-m", "titan", "run", "--check", "first", "--device", program.device]
    done = subprocess.run(
        [*command, str(made), *arguments],
        capture_output=True, text=True, check=False, cwd=root("protocols").parent,
    )  # fmt: skip
    summary = re.search(r"titan: (\d+) launch\w* computed(?:: (.*))?", done.stderr)
    launches = int(summary.group(1)) if summary else 0
    verdicts: Counter[str] = Counter()
    for number, verdict in re.findall(r"(\d+) ([a-z ]+)", (summary and summary.group(2)) or ""):
        verdicts[verdict] += int(number)
    result, why = judged(done.returncode, done.stdout, done.stderr, launches)
    return Ran(result, without_folders(why), launches, verdicts), done.stdout


def runs(program: CutlassProgram, made: Path) -> Iterator[Ran]:
    """The runs of a program: one, or one of each of its tests."""
    if not program.tests:
        yield ran(program, made, program.arguments)[0]
        return
    suite = ""
    for line in ran(program, made, ["--gtest_list_tests"])[1].splitlines():
        if not line.startswith(" "):
            suite = line.strip()
        elif "DISABLED_" not in line:
            yield ran(program, made, [f"--gtest_filter={suite}{line.strip()}"])[0]


def row(program: CutlassProgram, sources: Sources) -> Row:
    """Compile and run one program."""
    made, complaint = compiled(program, sources)
    if complaint:
        return (program.name, program.what, NOT_COMPILED, "", "", "", complaint[:240])
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = list(runs(program, made))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    verdicts: Counter[str] = sum((one.verdicts for one in found), Counter())
    why = next((one.why for one in found if one.result != PASSED), found[0].why if found else "")
    result = counted(Counter(one.result for one in found)) if program.tests else found[0].result
    return (
        program.name, program.what, result, str(sum(one.launches for one in found)),
        counted(verdicts), f"{seconds:.1f}", why[:240],
    )  # fmt: skip


def counted(numbers: Counter[str]) -> str:
    """Such as `3 passed, 1 failed`."""
    return ", ".join(f"{number} {name}" for name, number in numbers.most_common())


def judged(code: int, out: str, err: str, launches: int) -> tuple[str, str]:
    """The result of a run, and its reason where it did not pass.

    A program that says that it passed has to have computed launches: on a device that computes
    nothing some say so, too.
    """
    lines = [line for line in err.splitlines() if line.strip()]
    undecided = next((one for one in lines if re.match(r"titan: .* is undecided", one)), "")
    if re.search(r"passed", out, re.IGNORECASE) and launches and code in (0, 3):
        return PASSED, undecided.removeprefix("titan: ")
    first = next((line for line in lines if not line.startswith("titan: ")), "")
    diagnostic = next((n for n, line in enumerate(lines) if line.startswith("error[")), None)
    if diagnostic is not None:
        located = next((one for one in lines[diagnostic:] if "^" in one), "")
        told = f"{lines[diagnostic]} {located.partition('^')[2].strip('^ ')}".strip()
        return (NOT_SUPPORTED if code == UNUSABLE else REFUTED), told
    if code == UNUSABLE:
        return NOT_SUPPORTED, first or next(iter(lines), "")
    return FAILED, first or (out.strip().splitlines() or [f"exit code {code}"])[-1]


def joined(found: list[Row]) -> list[Row]:
    """The rows that were stored before with those that were found, in the order of `PROGRAMS`."""
    path = RESULTS / "cutlass.json"
    stored = json.loads(path.read_text(encoding="utf-8"))["rows"] if path.exists() else []
    kept = {item["program"]: tuple(item[name] for name in HEAD) for item in stored}
    kept.update({one[0]: one for one in found})
    return [kept[program.name] for program in PROGRAMS if program.name in kept]


def main() -> None:
    """Print the table, or write it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("cutlass", type=Path)
    parser.add_argument("--programs", type=Path, required=True)
    parser.add_argument("--googletest", type=Path, default=Path("/usr"))
    parser.add_argument("--only", default="")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    options.programs.mkdir(parents=True, exist_ok=True)
    sources = Sources(
        options.cutlass.resolve(), options.programs.resolve(), options.googletest.resolve()
    )
    for program in PROGRAMS:
        if options.only in program.name:
            found = row(program, sources)
            print(" | ".join(found), flush=True)
            if options.write:
                rows = joined([found])
                store("cutlass", HEAD, rows)
                write("cutlass", table_text(HEAD, rows), PAGE)


if __name__ == "__main__":
    main()
