"""The AMDGPU litmus suite as a table: shapes, strengths, places, scopes, and the verdict of each.

The verdicts come from the literature, not from our engines: each shape has, for each strength, the
verdict of C++ atomics (Lahav et al., PLDI 2017; Alglave et al. for the names of shapes). Where a
scope does not include the threads of the test, its atomics race (Lustig et al., ASPLOS 2019), and a
race makes every outcome possible. `python -m tests.litmus.amdgpu_suite` writes the files.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from titan.foundation.resources import root

ALLOWED, FORBIDDEN = "Allowed", "Forbidden"
SCOPES = ("wavefront", "workgroup", "agent", "system")
# Where thread n stands, and the narrowest scope that includes all threads.
PLACES = {
    "wave": (lambda n: "wave 0,wg 0,agent 0", "wavefront"),
    "group": (lambda n: f"wave {n},wg 0,agent 0", "workgroup"),
    "agent": (lambda n: f"wg {n},agent 0", "agent"),
    "xcds": (lambda n: f"wg {n},xcd {n},agent 0", "agent"),
    "agents": (lambda n: f"wg 0,agent {n}", "system"),
}
STRENGTHS = ("rlx", "ra", "fences", "sc", "sc-fences")
A, F = ALLOWED, FORBIDDEN
# Threads of accesses (W location value, R location register); the outcome; verdicts by strength.
SHAPES: dict[str, tuple[tuple[str, ...], str, tuple[str, ...]]] = {
    "MP": (("W x 1; W y 1", "R y r0; R x r1"), "P1:r0=1 /\\ P1:r1=0", (A, F, F, F, F)),
    "SB": (("W x 1; R y r0", "W y 1; R x r0"), "P0:r0=0 /\\ P1:r0=0", (A, A, A, F, F)),
    "LB": (("R x r0; W y 1", "R y r0; W x 1"), "P0:r0=1 /\\ P1:r0=1", (A, F, F, F, F)),
    "S": (("W x 2; W y 1", "R y r0; W x 1"), "P1:r0=1 /\\ x=2", (A, F, F, F, F)),
    "R": (("W x 1; W y 1", "W y 2; R x r0"), "y=2 /\\ P1:r0=0", (A, A, A, F, F)),
    "2+2W": (("W x 1; W y 2", "W y 1; W x 2"), "x=1 /\\ y=1", (A, A, A, F, F)),
    "WRC": (
        ("W x 1", "R x r0; W y 1", "R y r0; R x r1"),
        "P1:r0=1 /\\ P2:r0=1 /\\ P2:r1=0",
        (A, F, F, F, F),
    ),
    "WWC": (("W x 2", "R x r0; W y 1", "R y r0; W x 1"), "P1:r0=2 /\\ P2:r0=1 /\\ x=2",
            (A, F, F, F, F)),
    "ISA2": (
        ("W x 1; W y 1", "R y r0; W z 1", "R z r0; R x r1"),
        "P1:r0=1 /\\ P2:r0=1 /\\ P2:r1=0",
        (A, F, F, F, F),
    ),
    "RWC": (
        ("W x 1", "R x r0; R y r1", "W y 1; R x r0"),
        "P1:r0=1 /\\ P1:r1=0 /\\ P2:r0=0",
        (A, A, A, F, F),
    ),
    "IRIW": (
        ("W x 1", "R x r0; R y r1", "W y 1", "R y r0; R x r1"),
        "P1:r0=1 /\\ P1:r1=0 /\\ P3:r0=1 /\\ P3:r1=0",
        (A, A, A, F, F),
    ),
    "CoRR": (("W x 1", "R x r0; R x r1"), "P1:r0=1 /\\ P1:r1=0", (F, F, F, F, F)),
    "CoRW": (("W x 1", "R x r0; W x 2"), "P1:r0=1 /\\ x=1", (F, F, F, F, F)),
}  # fmt: skip
ORDERS = {"rlx": ("relaxed", "relaxed"), "ra": ("acquire", "release"), "sc": ("seq_cst", "seq_cst")}
FENCES = {"fences": "acq_rel", "sc-fences": "seq_cst"}


@dataclass(frozen=True)
class GeneratedTest:
    """One file: its text and its verdict."""

    name: str
    comment: str
    locations: tuple[str, ...]
    threads: tuple[tuple[str, ...], ...]
    places: tuple[str, ...]
    condition: str
    verdict: str

    def text(self) -> str:
        """The file, laid out by hand so that the printer of TITAN has no part in it."""
        columns = [
            [f"P{n}@{place}", *code]
            for n, (place, code) in enumerate(zip(self.places, self.threads, strict=True))
        ]
        height = max(map(len, columns))
        padded = [column + [""] * (height - len(column)) for column in columns]
        widths = [max(map(len, column)) for column in padded]
        rows = [
            " " + " | ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) + " ;"
            for row in zip(*padded, strict=True)
        ]
        head = [f"AMDGPU {self.name}", f'"{self.comment}"', "{"]
        return "\n".join(
            [*head, *(f"{place};" for place in self.locations), "}", *rows,
             f"exists ({self.condition})"]
        ) + "\n"  # fmt: skip


def code_of(thread: str, strength: str, scope: str) -> tuple[str, ...]:
    """The accesses of a shape with orders and scope, fences between them where it says so."""
    lines: list[str] = []
    for access in thread.split("; "):
        if lines and strength in FENCES:
            lines.append(f"fence.{FENCES[strength]}.{scope}")
        kind, location, value = access.split()
        read, write = ORDERS.get(strength, ORDERS["rlx"])
        if kind == "R":
            lines.append(f"ld.{read}.{scope} {value}, {location}")
        else:
            lines.append(f"st.{write}.{scope} {location}, {value}")
    return tuple(lines)


def shaped(shape: str, strength: str, where: str, scope: str) -> GeneratedTest:
    """A shape at a place; a scope that does not include the threads leaves a race."""
    threads, condition, verdicts = SHAPES[shape]
    place, narrowest = PLACES[where]
    includes = SCOPES.index(scope) >= SCOPES.index(narrowest)
    verdict = verdicts[STRENGTHS.index(strength)] if includes else ALLOWED
    name = f"{shape}+{strength}.{scope}@{where}"
    comment = f"{shape}, {strength}, scope {scope}, threads apart by {where}"
    if not includes:
        comment += ": the scope does not include them, a race"
    used = dict.fromkeys(a.split()[1] for t in threads for a in t.split("; "))
    return GeneratedTest(
        name, comment, tuple(f"{x} = 0" for x in used),
        tuple(code_of(t, strength, scope) for t in threads),
        tuple(place(n) for n in range(len(threads))), condition, verdict,
    )  # fmt: skip


def classic() -> Iterator[GeneratedTest]:
    """Every shape in every strength at the scope that just includes the threads."""
    for shape in SHAPES:
        for strength, places in (
            ("rlx", ("group", "xcds")),
            ("ra", ("group", "agent", "xcds", "agents")),
            ("fences", ("xcds",)),
            ("sc", ("group", "agent", "xcds", "agents")),
            ("sc-fences", ("group", "xcds")),
        ):
            for where in places:
                yield shaped(shape, strength, where, PLACES[where][1])
    for shape in ("MP", "SB", "CoRR"):
        for strength in ("rlx", "ra", "sc"):
            yield shaped(shape, strength, "wave", "wavefront")


def scoped() -> Iterator[GeneratedTest]:
    """Scopes that are too narrow, which race, and scopes that are wider than needed."""
    for where, (_, narrowest) in PLACES.items():
        for scope in SCOPES:
            if SCOPES.index(scope) < SCOPES.index(narrowest):
                yield from (shaped(shape, "ra", where, scope) for shape in ("MP", "SB", "CoRR"))
            elif scope != narrowest:
                yield shaped("MP", "ra", where, scope)
                yield shaped("SB", "sc", where, scope)


def mixed() -> Iterator[GeneratedTest]:
    """Shapes of two threads with some of their locations in LDS: two memories, two counters."""
    for shape in ("MP", "SB", "LB", "S", "R", "2+2W"):
        for lds in ("x", "y", "xy"):
            for strength in ("ra", "sc"):
                for scope in ("workgroup", "agent") if shape in ("MP", "SB") else ("workgroup",):
                    test = shaped(shape, strength, "group", scope)
                    locations = tuple(
                        f"lds {name}" if name[0] in lds else name for name in test.locations
                    )
                    yield replace(
                        test, name=f"{test.name}-lds-{lds}", locations=locations,
                        comment=f"{test.comment}; in LDS: {lds}",
                    )  # fmt: skip


def guarded(
    name: str, comment: str, locations: tuple[str, ...], writer: tuple[str, ...],
    reader: tuple[str, ...], where: str, verdict: str,
) -> GeneratedTest:  # fmt: skip
    """Message passing of data that is not atomic, read only where the flag was seen."""
    place, _ = PLACES[where]
    code = (*reader, "bne r0, 1, out", "ld.weak r1, data", "out:")
    return GeneratedTest(
        name, comment, locations, (("st.weak data, 1", *writer), code), (place(0), place(1)),
        "P1:r0=1 /\\ P1:r1=0", verdict,
    )  # fmt: skip


def messages() -> Iterator[GeneratedTest]:
    """Data that is not atomic, in LDS or global memory, with a flag in either."""
    for where, (_, scope) in PLACES.items():
        kinds = {
            "rlx": ((f"st.relaxed.{scope} flag, 1",), (f"ld.relaxed.{scope} r0, flag",), A),
            "ra": ((f"st.release.{scope} flag, 1",), (f"ld.acquire.{scope} r0, flag",), F),
            "fences": (
                (f"fence.release.{scope}", f"st.relaxed.{scope} flag, 1"),
                (f"ld.relaxed.{scope} r0, flag", f"fence.acquire.{scope}"), F,
            ),
            "rel-only": ((f"st.release.{scope} flag, 1",), (f"ld.relaxed.{scope} r0, flag",), A),
            "acq-only": ((f"st.relaxed.{scope} flag, 1",), (f"ld.acquire.{scope} r0, flag",), A),
            "rmw": (
                (f"atom.release.{scope}.exch r9, flag, 1",),
                (f"atom.acquire.{scope}.add r0, flag, 0",), F,
            ),
            "early-acquire": (
                (f"st.release.{scope} flag, 1",),
                (f"fence.acquire.{scope}", f"ld.relaxed.{scope} r0, flag"), A,
            ),
        }  # fmt: skip
        spaces = {"": ("data = 0", "flag = 0")}
        if where in ("wave", "group"):
            spaces |= {
                "-lds": ("lds data = 0", "lds flag = 0"),
                "-lds-data": ("lds data = 0", "flag = 0"),
                "-lds-flag": ("data = 0", "lds flag = 0"),
            }
        for space, locations in spaces.items():
            for kind, (writer, reader, verdict) in kinds.items():
                if space and kind not in ("rlx", "ra", "fences"):
                    continue
                yield guarded(
                    f"message{space}+{kind}@{where}", f"weak data, flag {kind}{space}",
                    locations, writer, reader, where, verdict,
                )  # fmt: skip


def barriers() -> Iterator[GeneratedTest]:
    """`s_barrier` makes threads meet; fences on both sides make what they wrote visible."""
    place, _ = PLACES["group"]
    for space in ("", "lds "):
        for kind, before, behind, verdict in (
            ("bare", (), (), A),
            ("release", ("fence.release.workgroup",), (), A),
            ("acquire", (), ("fence.acquire.workgroup",), A),
            ("both", ("fence.release.workgroup",), ("fence.acquire.workgroup",), F),
            ("narrow", ("fence.release.wavefront",), ("fence.acquire.wavefront",), A),
            ("wide", ("fence.release.agent",), ("fence.acquire.agent",), F),
            ("order", ("fence.acquire.workgroup",), ("fence.release.workgroup",), A),
        ):
            yield GeneratedTest(
                f"barrier{'-lds' if space else ''}+{kind}",
                f"data over s_barrier, fences: {kind}", (f"{space}data = 0",),
                (("st.weak data, 1", *before, "s_barrier"),
                 ("s_barrier", *behind, "ld.weak r0, data")),
                (place(0), place(1)), "P1:r0=0", verdict,
            )  # fmt: skip


def sequences() -> Iterator[GeneratedTest]:
    """Release sequences, atomics, and synchronisation through two scopes."""
    apart, near = PLACES["xcds"][0], PLACES["group"][0]
    reader = ("ld.acquire.agent r0, flag", "bne r0, 2, out", "ld.weak r1, data", "out:")
    stale = "P1:r0=2 /\\ P1:r1=0"
    release = ("st.weak data, 1", "st.release.agent flag, 1")
    yield GeneratedTest(
        "sequence+store", "a relaxed store behind the release is in no release sequence of C++20",
        ("data = 0", "flag = 0"), ((*release, "st.relaxed.agent flag, 2"), reader),
        (apart(0), apart(1)), stale, A,
    )  # fmt: skip
    for scope, verdict in (("agent", F), ("workgroup", A)):
        yield GeneratedTest(
            f"sequence+rmw.{scope}", "an atomic of a third thread continues the release sequence",
            ("data = 0", "flag = 0"),
            (release, reader, (f"atom.relaxed.{scope}.add r0, flag, 1",)),
            (apart(0), apart(1), apart(2)), stale, verdict,
        )  # fmt: skip
    yield GeneratedTest(
        "race+elsewhere", "a race on y leaves x undefined, too", ("x = 0", "y = 0"),
        (("st.weak y, 1",), ("st.weak y, 2",)), (apart(0), apart(1)), "x=1", A,
    )  # fmt: skip
    for where, (place, scope) in PLACES.items():
        add = (f"atom.relaxed.{scope}.add r0, x, 1",)
        yield GeneratedTest(
            f"add+add@{where}", "no increment is lost", ("x = 0",), (add, add),
            (place(0), place(1)), "P0:r0=0 /\\ P1:r0=0", F,
        )  # fmt: skip
        take = (f"atom.acquire.{scope}.cas r0, lock, 0, 1", "bne r0, 0, out")
        leave = (f"st.release.{scope} lock, 0", "out:")
        yield GeneratedTest(
            f"lock@{where}", "a lock by compare and swap around data that is not atomic",
            ("lock = 0", "data = 0"),
            ((*take, "st.weak data, 1", *leave), (*take, "ld.weak r1, data", *leave)),
            (place(0), place(1)), "race(data)", F,
        )  # fmt: skip
    for first, last, verdict in (
        ("workgroup", "agent", F), ("agent", "agent", F), ("wavefront", "agent", A),
        ("workgroup", "workgroup", A),
    ):  # fmt: skip
        yield GeneratedTest(
            f"transitive+{first}+{last}", "a thread hands on data that it never saw itself",
            ("data = 0", "y = 0", "z = 0"),
            (
                ("st.weak data, 1", f"st.release.{first} y, 1"),
                (f"ld.acquire.{first} r0, y", "bne r0, 1, out", f"st.release.{last} z, 1", "out:"),
                (f"ld.acquire.{last} r0, z", "bne r0, 1, out", "ld.weak r1, data", "out:"),
            ),
            (near(0), near(1), "wg 1,agent 0"), "P2:r0=1 /\\ P2:r1=0", verdict,
        )  # fmt: skip


def suite() -> list[GeneratedTest]:
    """All tests, each name once."""
    found = [*classic(), *scoped(), *mixed(), *messages(), *barriers(), *sequences()]
    assert len({test.name for test in found}) == len(found)
    return found


def main() -> None:
    """Write the files and their verdicts."""
    folder = root("litmus") / "amdgpu"
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.litmus"):
        old.unlink()
    for test in suite():
        (folder / f"{test.name}.litmus").write_text(test.text(), encoding="utf-8")
    lines = sorted(f"{test.name} {test.verdict}" for test in suite())
    (folder / "kinds.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(len(lines), "tests")


if __name__ == "__main__":
    main()
