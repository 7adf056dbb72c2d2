"""Diagnostics name the cause: the stale read before the fence, the weak operation, both sums."""

from __future__ import annotations

from dataclasses import replace

import pytest

from titan.foundation.diagnostics.model import Diagnostic
from titan.foundation.diagnostics.render.text import COLUMNS
from titan.foundation.verdict import Verdict
from titan.language.kernel.decode import decode_text
from titan.report.findings import ReportStyle, diagnostics_of, render
from titan.verify.model import Finding, VerifyOptions
from titan.verify.pipeline import verify_kernel

OPTIONS = VerifyOptions(save_traces=None)
HEAD = "titan: 1\nkernel: k\ntarget: sm_90a\n"


def finding_of(text: str, options: VerifyOptions = OPTIONS) -> Finding:
    family, errors = decode_text(HEAD + text, "k.yaml")
    assert family is not None, errors
    return verify_kernel(family.kernels[0], options)


def diagnosed(text: str) -> Diagnostic:
    finding = finding_of(text)
    assert finding.verdict is Verdict.REFUTED
    return diagnostics_of(finding)[0]


def labels(item: Diagnostic) -> list[tuple[int, str]]:
    return [(note.span.start_line, note.label) for note in item.annotations]


REWRITTEN = """\
buffers: {B: {bytes: 4096}}
named_barriers: {block: {threads: 256}}
queues: {group: wgmma}
roles: {wg: {warpgroups: 2}}
program:
  wg:
    - {store: B = 0, when: self == 0}
    - {fence: async, when: self == 0}
    - sync: block
    - {mma: B = 0, queue: group}
    - commit: group
    - drain: group
    - {store: B = 1, when: self == 0}
"""


def test_a_stale_read_is_named_before_the_fence_that_lacks_too():
    item = diagnosed(REWRITTEN)
    assert item.code == "TTN204"
    assert item.headline == "B holds tile 1 where tile 0 is expected (wg[1])"
    assert (16, "wg[0] wrote tile 1 here") in labels(item)


@pytest.mark.parametrize("fenced", [False, True])
def test_the_store_that_is_not_fenced_is_marked_and_where_the_fence_goes(fenced: bool):
    text = REWRITTEN.replace("    - {store: B = 1, when: self == 0}\n", "")
    if not fenced:
        text = text.replace("    - {fence: async, when: self == 0}\n", "")
        item = diagnosed(text)
        assert item.code == "TTN301"
        assert (10, "written by wg[0] here, and not fenced after") in labels(item)
        assert (
            "`fence: async` goes to wg[0], after its access (line 10) and before its arrival "
            "(line 11)"
        ) in item.notes
    else:
        assert finding_of(text).verdict is Verdict.VERIFIED


NARROW = """\
ctas: 2
buffers: {X: {space: global, bytes: 16}}
barriers: {b: {count: 1, cta: 0}}
named_barriers: {end: {scope: cluster, threads: 64}}
roles: {near: {warps: 1, cta: 0}, far: {warps: 1, cta: 1}}
program:
  near:
    - {wait: b, phase: 0WAIT}
    - load: X = 1
    - sync: end
  far:
    - store: X = 1
    - {arrive: "b@0"ARRIVE}
    - sync: end
"""


@pytest.mark.parametrize(
    ("wait", "arrive", "line", "word"),
    [
        ("", ", scope: cluster", 11, "the wait (line 11) is of CTA scope: write `scope: cluster`"),
        (", scope: cluster", "", 16, "the arrival (line 16) is of CTA scope"),
        (", scope: cluster", ", scope: cluster, order: relaxed", 16, "leave out `order: relaxed`"),
        (", scope: cluster, order: relaxed", ", scope: cluster", 11, "leave out `order: relaxed`"),
    ],
)
def test_the_weak_operation_and_the_word_to_write(wait: str, arrive: str, line: int, word: str):
    item = diagnosed(NARROW.replace("WAIT", wait).replace("ARRIVE", arrive))
    assert item.code == "TTN305"
    assert any(word in note for note in item.notes)
    assert any(place == line and "too weak" in label for place, label in labels(item))


SUMS = """\
buffers: {A: {bytes: 4096}}
barriers: {full: 1}
roles: {p: {warps: 1}}
program:
  p:
    - {arrive: full, bytes: 8192}
    - {bulk_load: A = 0, completes: full}
    - {wait: full, phase: 0}
"""


def test_bytes_that_no_copy_brings_are_named_with_both_sums():
    item = diagnosed(SUMS)
    assert item.code in ("TTN205", "TTN207")
    (note,) = [note for note in item.notes if "bytes are expected" in note]
    assert note == (
        "phase 0 of full: 8192 bytes are expected (line 9), 4096 bytes come by copies (line 10)"
    )


RACE = """\
buffers: {A: {bytes: 64}}
named_barriers: {ids: {threads: 64}}
roles: {a: {warps: 1}, b: {warps: 1}}
program:
  a:
    - sync: ids
    - store: A = 1
  b:
    - sync: ids
    - store: A = 1
"""


def test_a_race_names_the_barrier_that_let_both_pass_and_shows_both_accesses():
    item = diagnosed(RACE)
    assert item.code == "TTN201"
    assert "a passed ids (line 9); there arrived b" in item.notes
    assert item.trace is not None
    assert [step.text for step in item.trace.steps[-2:]] == ["may store A (tile 1)"] * 2


UNOBSERVED = """\
barriers: {given: {count: 2}}
roles: {s: {warps: 2}}
program:
  s:
    - for: i in 0..2
      do:
        - arrive: given
"""


def test_an_unobserved_phase_names_the_count_and_who_arrives():
    item = diagnosed(UNOBSERVED)
    assert item.code == "TTN216"
    assert any(note.startswith("given counts 2 arrivals a phase (line 4)") for note in item.notes)
    assert any("; in phase 0 arrived " in note and "; in phase 1 " in note for note in item.notes)


ASIDE = """\
sizes: {n: any}
buffers: {A: {bytes: 64}, B: {bytes: 64}}
barriers: {x: 1, y: 1}
roles: {p: {warps: 1}, q: {warps: 1}, r: {warps: 1}, s: {warps: 1}}
program:
  p:
    - {store: A = 0}
    - arrive: x
  q:
    - {wait: x, phase: 0}
    - {load: A = 1}
  r:
    - {store: B = 0}
    - arrive: y
  s:
    - {wait: y, phase: 0}
    - {load: B = 0}
"""


def test_steps_that_do_not_matter_are_left_out_of_the_trace():
    finding = finding_of(ASIDE, replace(OPTIONS, engine="order"))
    (item,) = diagnostics_of(finding)
    (whole,) = diagnostics_of(finding, full_trace=True)
    assert item.trace is not None and whole.trace is not None
    assert {step.agent for step in item.trace.steps} == {"p", "q"}
    assert len(whole.trace.steps) == whole.trace.count == item.trace.count
    kept = [step for step in whole.trace.steps if step.agent in ("p", "q")]
    assert list(item.trace.steps) == kept


def test_traces_stay_within_their_columns():
    text = NARROW.replace("WAIT", "").replace("ARRIVE", ", scope: cluster").replace("X", "X" * 40)
    shown = render([finding_of(text)], "text", ReportStyle(full_trace=True))
    begin = shown.index("= trace")
    lines = shown[begin : shown.index("  explain:")].splitlines()
    assert len(lines) > 3 and max(map(len, lines)) <= COLUMNS


def test_one_fault_of_several_sizes_is_shown_once():
    style = ReportStyle()
    family, _ = decode_text(HEAD + "sizes: {n: [1, 2, 5]}\n" + RACE, "k.yaml")
    assert family is not None and len(family.kernels) == 3
    findings = [verify_kernel(kernel, OPTIONS) for kernel in family.kernels]
    shown = "".join(render([finding], "text", style) for finding in findings)
    assert shown.count("error[TTN201]") == 1 and shown.count("REFUTED") == 3
    assert shown.count("the same TTN201 data-race at line 11 as above") == 2


def test_parts_have_their_names():
    text = REWRITTEN.replace("B: {bytes: 4096}", "B: {parts: 2, bytes: 8192}")
    text = text.replace("B = 0", "B[0, 1] = 0").replace("B = 1", "B[0, 1] = 1")
    assert diagnosed(text).headline.startswith("B part 1 holds tile 1")


def test_places_are_named_once():
    """A headline in the words of the file is not put into words again: stage 1 is not cell 1."""
    text = """\
buffers: {X: {space: global, stages: 2, parts: 2, bytes: 1024}, S: {bytes: 1024}}
barriers: {go: {count: 1, kind: flag}, full: 1}
roles: {one: {warps: 1}, two: {warps: 1}}
program:
  one:
    - {store: "X[1, 0] = 0"}
    - fence: async
    - arrive: go
    - {store: "X[1, 0] = 1"}
  two:
    - {wait: go, phase: 0}
    - {arrive: full, bytes: 1024}
    - {bulk_load: S = 0, from: ["X[1, 0] = 0"], completes: full}
    - {wait: full, phase: 0}
"""
    assert diagnosed(text).headline == "X[1] part 0 holds tile 1 where tile 0 is expected (two)"


def test_a_flag_that_runs_ahead_is_told_from_an_mbarrier():
    text = """\
buffers: {X: {space: global, bytes: 64, initial: 0}}
barriers: {f: {count: 1, kind: flag}}
roles: {here: {warps: 1}, there: {warps: 1, outside: true}}
program:
  here: [{store: X = 1}, {arrive: f}, {arrive: f}]
  there: [{wait: f, phase: 1}, {load: X = 1}]
"""
    for changed, rule in ((text, "TTN212"), (text.replace("phase: 1", "phase: 0"), "TTN216")):
        item = diagnosed(changed)
        assert item.code == rule and any("f is a flag" in note for note in item.notes)
    mbarrier = text.replace(", kind: flag", "").replace(", outside: true", "")
    assert not any("is a flag" in note for note in diagnosed(mbarrier).notes)
