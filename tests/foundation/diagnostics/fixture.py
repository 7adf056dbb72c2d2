"""The diagnostics that every renderer is tested with."""

from titan.foundation.diagnostics.model import (
    Annotation,
    Diagnostic,
    TraceReference,
    TraceStep,
    diagnostic,
)
from titan.foundation.source.span import Source, Span, whole_file

KERNEL = Source(
    "kernels/gemm.yaml",
    """titan: 1
roles:
  consumer: {warps: 4}
program:
  consumer:
    - issue: {mma: ["A[t]", "B[t]"], as: group}
    - wait: x
    - release: operands[t]
\t- 漢字: é x
  # evil \u202e text
  long: """
    + "x" * 150
    + " the_end_of_a_long_line "
    + "y" * 150
    + "\n",
)
LIBRARY = Source("library.yaml", "a: b\n")


def at(text: str, source: Source = KERNEL) -> Span:
    """The span of the first occurrence of `text`."""
    start = source.text.index(text)
    return source.span(start, start + len(text))


def fixture() -> list[Diagnostic]:
    """Several labels, two files, a trace, wide and hostile characters, a long line, no place."""
    in_flight = diagnostic(
        "TTN202",
        "stage 0 is overwritten while `group` may still read it",
        at("release"),
        "released before `group` completes",
        others=(
            Annotation(at("issue"), "this read is asynchronous and still in flight"),
            Annotation(at("group"), "this group"),
            Annotation(at("a: b", LIBRARY), "declared here"),
        ),
        notes=("shortest interleaving has 3 steps", "a note\nof two lines"),
        helps=("drain `group` before the release, or release `operands[t - 1]` instead",),
    )
    interleaving = TraceReference(
        (
            TraceStep("consumer warp 0", "issue group: tile 0, stage 0", at("issue")),
            TraceStep("consumer warp 1", "release operands[0]", at("release")),
            TraceStep("copy engine", "write tile 4 to stage 0"),
        ),
        ".titan/traces/1.json",
    )
    return [
        in_flight.with_trace(interleaving),
        diagnostic("TTN306", "this fence orders nothing", at("wait"), "", helps=("remove it",)),
        diagnostic(
            "TTN006",
            "this has no key `漢字`",
            at("漢字"),
            "unknown",
            others=(Annotation(at("é"), "beside it"),),
        ),
        diagnostic("TTN011", "no name `the_end_of_a_long_line` is declared", at("the_end_of_a")),
        diagnostic("TTN001", "evil \x1b[31m headline", at("evil"), "evil \x07 label"),
        diagnostic("TTN205", "all agents wait", at("program").to(at("release")), "this part"),
        diagnostic("TTN002", "the file cannot be read: no such file", whole_file("none.yaml")),
        diagnostic("TTN902", "the explorer and the interpreter disagree"),
    ]
