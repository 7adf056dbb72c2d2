"""Litmus tests of CDNA instructions as a table: waits, LDS, LDS DMA, barriers, caches.

The verdicts follow from the documents: counters and their order from the CDNA3 ISA (4.4), LDS DMA
from the CDNA3 and CDNA4 ISA (10.3, 9.1.9), caches and their instructions from LLVM's AMDGPU memory
model. `python -m tests.litmus.machine_suite` writes the files.
"""

from __future__ import annotations

from dataclasses import dataclass

from titan.foundation.resources import root

ALL = ("GFX90A", "GFX942", "GFX950")
NEW = ("GFX942", "GFX950")
A, F = "Allowed", "Forbidden"
WAVES = ("wave 0,wg 0", "wave 1,wg 0")
XCDS = ("wg 0,xcd 0", "wg 1,xcd 1")
GROUPS = ("wg 0,xcd 0", "wg 1,xcd 0")


@dataclass(frozen=True)
class InstructionTest:
    """One test: threads as instructions separated by semicolons."""

    name: str
    comment: str
    locations: str
    threads: tuple[str, ...]
    condition: str
    verdict: str
    targets: tuple[str, ...] = ALL
    places: tuple[str, ...] = WAVES

    def text(self, target: str) -> str:
        """The file for one target."""
        columns = [
            [f"P{n}@{place}", *thread.split("; ")]
            for n, (place, thread) in enumerate(zip(self.places, self.threads, strict=False))
        ]
        height = max(map(len, columns))
        widths = [max(map(len, column)) for column in columns]
        rows = [
            " " + " | ".join(
                (column[row] if row < len(column) else "").ljust(width)
                for column, width in zip(columns, widths, strict=True)
            ) + " ;"
            for row in range(height)
        ]  # fmt: skip
        lines = [f"{target} {self.name}", f'"{self.comment}"', f"{{ {self.locations} }}"]
        return "\n".join([*lines, *rows, f"exists ({self.condition})"]) + "\n"


def alone(name: str, comment: str, locations: str, code: str, condition: str, verdict: str,
          targets: tuple[str, ...] = ALL) -> InstructionTest:  # fmt: skip
    """A test of one wave."""
    return InstructionTest(name, comment, locations, (code,), condition, verdict, targets)


TWO_LOADS = "global_load_dword r0, x; global_load_dword r1, y; "
TWO_READS = "ds_read_b32 r0, a; ds_read_b32 r1, b; "
TWO_SCALAR = "s_load_dword r0, x; s_load_dword r1, y; "
TWO_COPIES = "global_load_lds_dword a, x; global_load_lds_dword b, y; "
USE = "; v_mov_b32 r2, r0; v_mov_b32 r3, r1"
GLOBALS, LOCALS = "x = 1; y = 1;", "lds a = 1; lds b = 1;"
COPIED = "x = 1; y = 1; lds a = 0; lds b = 0;"
OLDER, YOUNGER = "P0:r2=0", "P0:r3=0"
WAITS = [
    alone("vmcnt+none", "a result that nobody waits for may not be there", GLOBALS,
          TWO_LOADS + USE[2:], OLDER, A),
    alone("vmcnt+0", "all results are there", GLOBALS,
          TWO_LOADS + "s_waitcnt vmcnt(0)" + USE, f"{OLDER} \\/ {YOUNGER}", F),
    alone("vmcnt+1-older", "all but the youngest are there", GLOBALS,
          TWO_LOADS + "s_waitcnt vmcnt(1)" + USE, OLDER, F),
    alone("vmcnt+1-younger", "the youngest may not be there", GLOBALS,
          TWO_LOADS + "s_waitcnt vmcnt(1)" + USE, YOUNGER, A),
    alone("vmcnt+store-counts", "a store counts like a load, in order", "x = 1; z = 0;",
          "global_load_dword r0, x; global_store_dword z, 1; s_waitcnt vmcnt(1); v_mov_b32 r2, r0",
          OLDER, F),
    alone("vmcnt+too-many", "a count that is not reached waits for nothing", "x = 1; z = 0;",
          "global_load_dword r0, x; global_store_dword z, 1; s_waitcnt vmcnt(2); v_mov_b32 r2, r0",
          OLDER, A),
    alone("vmcnt+other-counter", "lgkmcnt says nothing of global loads", GLOBALS,
          TWO_LOADS + "s_waitcnt lgkmcnt(0)" + USE, OLDER, A),
    alone("lgkmcnt+1-older", "LDS results come back in order", LOCALS,
          TWO_READS + "s_waitcnt lgkmcnt(1)" + USE, OLDER, F),
    alone("lgkmcnt+1-younger", "the youngest may not be there", LOCALS,
          TWO_READS + "s_waitcnt lgkmcnt(1)" + USE, YOUNGER, A),
    alone("lgkmcnt+0", "all results are there", LOCALS,
          TWO_READS + "s_waitcnt lgkmcnt(0)" + USE, f"{OLDER} \\/ {YOUNGER}", F),
    alone("lgkmcnt+other-counter", "vmcnt says nothing of LDS", LOCALS,
          TWO_READS + "s_waitcnt vmcnt(0)" + USE, OLDER, A),
    alone("lgkmcnt+scalar-1", "scalar loads come back in any order", GLOBALS,
          TWO_SCALAR + "s_waitcnt lgkmcnt(1)" + USE, OLDER, A),
    alone("lgkmcnt+scalar-0", "with all back, the order does not matter", GLOBALS,
          TWO_SCALAR + "s_waitcnt lgkmcnt(0)" + USE, f"{OLDER} \\/ {YOUNGER}", F),
    alone("lgkmcnt+mixed", "a scalar load may be what came back", "x = 1; lds a = 1;",
          "ds_read_b32 r0, a; s_load_dword r1, x; s_waitcnt lgkmcnt(1)" + USE, OLDER, A),
    alone("lgkmcnt+mixed-0", "with all back, the kinds do not matter", "x = 1; lds a = 1;",
          "ds_read_b32 r0, a; s_load_dword r1, x; s_waitcnt lgkmcnt(0)" + USE,
          f"{OLDER} \\/ {YOUNGER}", F),
    alone("lds+in-order", "LDS operations of a wave are performed in order", "lds a = 0;",
          "ds_write_b32 a, 1; ds_read_b32 r0, a; s_waitcnt lgkmcnt(0)", "P0:r0=0", F),
    alone("global+in-order", "accesses of one location of a wave are in order", "x = 0;",
          "global_store_dword x, 1; global_load_dword r0, x; s_waitcnt vmcnt(0)", "P0:r0=0", F),
    alone("both+one-wait", "one wait for both counters", "x = 1; lds a = 1;",
          "global_load_dword r0, x; ds_read_b32 r1, a; s_waitcnt vmcnt(0) lgkmcnt(0)" + USE,
          f"{OLDER} \\/ {YOUNGER}", F),
]  # fmt: skip
COPIES = [
    alone("dma+none", "a read of LDS may overtake the copy", COPIED,
          "global_load_lds_dword a, x; ds_read_b32 r0, a; s_waitcnt lgkmcnt(0)", "P0:r0=0", A, NEW),
    alone("dma+vmcnt", "vmcnt says that the copy is in LDS", COPIED,
          "global_load_lds_dword a, x; s_waitcnt vmcnt(0); ds_read_b32 r0, a; s_waitcnt lgkmcnt(0)",
          "P0:r0=0", F, NEW),
    alone("dma+lgkmcnt", "lgkmcnt does not count the copy", COPIED,
          "global_load_lds_dword a, x; s_waitcnt lgkmcnt(0); ds_read_b32 r0, a; "
          "s_waitcnt lgkmcnt(0)", "P0:r0=0", A, NEW),
    alone("dma+1-older", "all but the youngest copy are in LDS", COPIED,
          TWO_COPIES + "s_waitcnt vmcnt(1); ds_read_b32 r0, a; s_waitcnt lgkmcnt(0)",
          "P0:r0=0", F, NEW),
    alone("dma+1-younger", "the youngest copy may not be in LDS", COPIED,
          TWO_COPIES + "s_waitcnt vmcnt(1); ds_read_b32 r0, b; s_waitcnt lgkmcnt(0)",
          "P0:r0=0", A, NEW),
    alone("dma+overwrite-none", "a copy may overtake a read before it", COPIED,
          "ds_read_b32 r0, a; global_load_lds_dword a, x; s_waitcnt vmcnt(0) lgkmcnt(0)",
          "P0:r0=1", A, NEW),
    alone("dma+overwrite-wait", "a read that came back is not overtaken", COPIED,
          "ds_read_b32 r0, a; s_waitcnt lgkmcnt(0); global_load_lds_dword a, x", "P0:r0=1", F, NEW),
    alone("dma+write-none", "a copy may overtake a write before it", COPIED,
          "ds_write_b32 a, 2; global_load_lds_dword a, x; s_waitcnt vmcnt(0) lgkmcnt(0)",
          "a=2", A, NEW),
]  # fmt: skip
READ = "s_barrier; ds_read_b32 r0, a; s_waitcnt lgkmcnt(0)"
BARRIERS = [
    InstructionTest(f"barrier+{kind}", comment, locations, (first, second), condition, verdict,
                    targets)
    for kind, comment, locations, first, second, condition, verdict, targets in (
        ("lds-none", "s_barrier waits for no counter", "lds a = 0;",
         "ds_write_b32 a, 1; s_barrier", READ, "P1:r0=0", A, ALL),
        ("lds-before", "a write that is counted down is there", "lds a = 0;",
         "ds_write_b32 a, 1; s_waitcnt lgkmcnt(0); s_barrier", READ, "P1:r0=0", F, ALL),
        ("lds-after", "a wait behind the barrier is too late for others", "lds a = 0;",
         "ds_write_b32 a, 1; s_barrier; s_waitcnt lgkmcnt(0)", READ, "P1:r0=0", A, ALL),
        ("lds-reader", "the reader's wait covers its own operations only", "lds a = 0;",
         "ds_write_b32 a, 1; s_barrier", READ.replace("; ds", "; s_waitcnt lgkmcnt(0); ds"),
         "P1:r0=0", A, ALL),
        ("dma-none", "s_barrier does not wait for the copy", "x = 1; lds a = 0;",
         "global_load_lds_dword a, x; s_barrier", READ, "P1:r0=0", A, NEW),
        ("dma-before", "the wait before the barrier is what others need", "x = 1; lds a = 0;",
         "global_load_lds_dword a, x; s_waitcnt vmcnt(0); s_barrier", READ, "P1:r0=0", F, NEW),
        ("dma-after", "where compilers put the wait by themselves", "x = 1; lds a = 0;",
         "global_load_lds_dword a, x; s_barrier; s_waitcnt vmcnt(0)", READ, "P1:r0=0", A, NEW),
        ("dma-counted", "one copy stays in flight over the barrier",
         "x = 1; y = 1; lds a = 0; lds b = 0;",
         TWO_COPIES + "s_waitcnt vmcnt(1); s_barrier", READ, "P1:r0=0", F, NEW),
        ("release-none", "a slot is free when its reads are back", "lds a = 0;",
         "ds_read_b32 r0, a; s_barrier; s_waitcnt lgkmcnt(0)", "s_barrier; ds_write_b32 a, 1",
         "P0:r0=1", A, ALL),
        ("release-before", "a slot is free when its reads are back", "lds a = 0;",
         "ds_read_b32 r0, a; s_waitcnt lgkmcnt(0); s_barrier", "s_barrier; ds_write_b32 a, 1",
         "P0:r0=1", F, ALL),
        ("global", "stores of a CU are seen by its waves in the order of issue", "x = 0;",
         "global_store_dword x, 1; s_barrier",
         "s_barrier; global_load_dword r0, x; s_waitcnt vmcnt(0)", "P1:r0=0", F, ALL),
    )
]  # fmt: skip


def handover(name: str, comment: str, left_out: str, verdict: str, places: tuple[str, ...] = XCDS,
             old: bool = False) -> InstructionTest:  # fmt: skip
    """Message passing between work-groups with one instruction of the sequences left out."""
    write = "global_store_dword x, 1; buffer_wbl2 sc1; s_waitcnt vmcnt(0); "
    write += "global_store_dword f, 1 sc1"
    read = "global_load_dword r0, f sc1; s_waitcnt vmcnt(0); buffer_inv sc1; "
    if old:
        write = "global_store_dword x, 1; s_waitcnt vmcnt(0); global_store_dword f, 1"
        read = "global_load_dword r0, f glc; s_waitcnt vmcnt(0); buffer_wbinvl1_vol; "
    read += "global_load_dword r1, x; s_waitcnt vmcnt(0)"
    which, _, what = left_out.partition(": ")
    if which == "writer":
        write = write.replace(f"{what}; ", "", 1)
    elif which == "reader":
        read = read.replace(f"{what}; ", "", 1)
    return InstructionTest(
        name, comment, "x = 0; f = 0;", (write, read), "P1:r0=1 /\\ P1:r1=0", verdict,
        ("GFX90A",) if old else NEW, places,
    )  # fmt: skip


CACHES = [
    handover("handover+xcds", "the whole sequence between XCDs", "", F),
    handover("handover+no-wbl2", "the data stays in its L2", "writer: buffer_wbl2 sc1", A),
    handover("handover+no-wait", "the flag overtakes the data", "writer: s_waitcnt vmcnt(0)", A),
    handover("handover+no-inv", "the reader's caches are stale", "reader: buffer_inv sc1", A),
    handover("handover+early-inv", "lines are fetched while the flag is under way",
             "reader: s_waitcnt vmcnt(0)", A),
    handover("handover+one-xcd-no-wbl2", "one XCD has one L2", "writer: buffer_wbl2 sc1", F,
             GROUPS),
    handover("handover+one-xcd-no-inv", "L1 of another CU is stale", "reader: buffer_inv sc1", A,
             GROUPS),
    handover("handover-gfx90a", "one L2 for the agent", "", F, GROUPS, True),
    handover("handover-gfx90a+no-inv", "L1 of another CU is stale", "reader: buffer_wbinvl1_vol", A,
             GROUPS, True),
    handover("handover-gfx90a+no-wait", "the flag overtakes the data",
             "writer: s_waitcnt vmcnt(0)", A, GROUPS, True),
]  # fmt: skip


def machine_suite() -> dict[str, tuple[str, str]]:
    """Name of the file -> its text and verdict, for each target of each test."""
    return {
        f"{test.name}.{target.lower()}": (test.text(target), test.verdict)
        for test in (*WAITS, *COPIES, *BARRIERS, *CACHES)
        for target in test.targets
    }


def main() -> None:
    """Write the files and their verdicts."""
    folder = root("litmus") / "cdna"
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.litmus"):
        old.unlink()
    for name, (text, _) in machine_suite().items():
        (folder / f"{name}.litmus").write_text(text, encoding="utf-8")
    lines = sorted(f"{name} {verdict}" for name, (_, verdict) in machine_suite().items())
    (folder / "kinds.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(len(lines), "tests")


if __name__ == "__main__":
    main()
