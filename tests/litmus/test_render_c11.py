"""Litmus tests as C11: they compile, run, and show nothing that the model forbids."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

from titan.foundation.resources import root
from titan.litmus.language.ast import ClusterBarrier
from titan.litmus.language.printing import format_instruction
from titan.litmus.language.suite import find_tests, read_test
from titan.litmus.language.text import read_litmus
from titan.litmus.render.c11 import COMPILE, DEFAULTS, render_c11
from titan.litmus.render.files import render_all
from titan.litmus.render.outcomes import verdict_of
from titan.litmus.render.refusal import NotRenderable
from titan.litmus.render.rendering import Rendering

SUITE = root("litmus")
GCC = shutil.which("gcc")
needs_gcc = pytest.mark.skipif(GCC is None, reason="gcc is not installed")
SAMPLE = (
    "classic/MP+fence.acq_rel",
    "classic/SB",
    "classic/SB+fence.sc",
    "classic/LB+ctrls",
    "classic/IRIW+fence.sc",
    "classic/MP+bar",
    "ptx/Ticketlock-same-gpu",
    "ptx/SL-cas-minus",
)
INSTANCES, ROUNDS = 512, 2


@cache
def rendered() -> dict[Path, Rendering]:
    found = {}
    for entry in find_tests((SUITE,)):
        try:
            found[entry.path] = render_c11(read_test(entry.path))
        except NotRenderable:
            continue
    return found


def run(rendering: Rendering, folder: Path) -> dict[int, int]:
    """Outcome keys with their counts, called as the manifest says."""
    assert GCC is not None
    source, library = folder / "test.c", folder / "test.so"
    source.write_text(rendering.source, encoding="utf-8")
    flags = [*COMPILE[1:], "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    subprocess.run([GCC, *flags, "-o", str(library), str(source)], check=True, timeout=60)
    loaded = ctypes.CDLL(str(library))
    buckets = rendering.manifest["outcomes"]["buckets"]
    histogram = (ctypes.c_ulonglong * (buckets + 1))()
    names = [p["name"] for p in rendering.manifest["parameters"]]
    assert names == [*DEFAULTS, "histogram"]
    values = {**DEFAULTS, "instances": INSTANCES, "rounds": ROUNDS}
    entry = getattr(loaded, rendering.manifest["entry"])
    assert entry(*(ctypes.c_uint(values[name]) for name in DEFAULTS), histogram) == 0
    return {key: count for key, count in enumerate(histogram) if count}


def decode(rendering: Rendering, key: int) -> list[int | None]:
    found: list[int | None] = []
    for word in reversed(rendering.manifest["outcomes"]["words"][1:]):
        key, digit = divmod(key, len(word["values"]) + 1)
        found.append(word["values"][digit] if digit < len(word["values"]) else None)
    return found[::-1]


def forbidden(path: Path, folder: Path, change: tuple[str, str] = ("", "")) -> list[object]:
    """Outcomes that a run shows and that the strictest reading does not allow."""
    test = read_test(path)
    verdict = verdict_of(test)
    assert verdict is not None
    rendering = render_c11(test, verdict)
    if change[0]:
        assert change[0] in rendering.source
        source = rendering.source.replace(*change)
        rendering = Rendering(source, rendering.manifest, rendering.suffix)
    counts = run(rendering, folder)
    assert sum(counts.values()) == INSTANCES * ROUNDS
    gave_up = counts.pop(rendering.manifest["outcomes"]["incomplete_bucket"], 0)
    assert gave_up < INSTANCES * ROUNDS
    strict = rendering.manifest["verdict"]["readings"][0]["allowed"]
    if strict is None or not rendering.manifest["verdict"]["complete"]:
        return []
    return [shown for key in counts if (shown := decode(rendering, key)) not in strict]


@needs_gcc
@pytest.mark.parametrize("name", SAMPLE)
def test_a_cpu_shows_nothing_that_the_model_forbids(name: str, tmp_path: Path) -> None:
    assert forbidden(SUITE / f"{name}.litmus", tmp_path) == []


@needs_gcc
def test_an_outcome_that_is_forbidden_would_be_seen(tmp_path: Path) -> None:
    path = SUITE / "classic" / "MP+bar.litmus"
    (store,) = re.findall(
        r"atomic_store_explicit\(&mine->location\[0\]\.value, \(1\).*", rendered()[path].source
    )
    assert forbidden(path, tmp_path, (store, store.replace("(1)", "(7)")))


@needs_gcc
@pytest.mark.heavy
@pytest.mark.timeout(1800)
def test_no_test_of_the_suite_shows_what_the_model_forbids(tmp_path: Path) -> None:
    for number, path in enumerate(rendered()):
        folder = tmp_path / str(number)
        folder.mkdir()
        assert forbidden(path, folder) == [], path


def test_the_classic_tests_are_rendered_and_hold_all_instructions() -> None:
    assert len(rendered()) >= 160
    folders = {path.parent.name for path in rendered()}
    assert {"classic", "ptx"} <= folders
    for path, rendering in rendered().items():
        marks = re.findall(r"/\* titan (\d+) (\d+) \*/", rendering.source)
        test = read_test(path)
        assert [(int(t), int(i)) for t, i in marks] == [
            (t, i) for t, thread in enumerate(test.threads) for i in range(len(thread.instructions))
        ]


def test_orders_are_at_least_those_of_the_test() -> None:
    for path, rendering in rendered().items():
        lines = {
            (int(t), int(i)): text
            for text, t, i in re.findall(
                r"^ *(.*) /\* titan (\d+) (\d+) \*/$", rendering.source, re.M
            )
        }
        for t, thread in enumerate(read_test(path).threads):
            for i, step in enumerate(thread.instructions):
                head = format_instruction(step).split()[0].split(".")
                if isinstance(step, ClusterBarrier) and step.waits:
                    assert lines[t, i].startswith("await("), path  # always acquires
                    continue
                for order in ("acquire", "release", "acq_rel"):
                    if order in head:
                        assert f"memory_order_{order}" in lines[t, i], path
                if head[:2] == ["fence", "sc"]:
                    assert "memory_order_seq_cst" in lines[t, i], path


def test_what_a_cpu_does_not_have_is_refused() -> None:
    for row in ("fence.proxy.async", "mbarrier.arrive b"):
        text = (
            "PTX t\n{\nx = 0;\nmbarrier b = 1 @ cta 0,gpu 0;\n}\n P0@cta 0,gpu 0 ;\n"
            f" {row} ;\nexists (x=1)"
        )
        if "mbarrier" not in row:
            text = text.replace("mbarrier b = 1 @ cta 0,gpu 0;\n", "")
        with pytest.raises(NotRenderable) as caught:
            render_c11(read_litmus("t.litmus", text))
        assert caught.value.kind == "no counterpart"


def test_files_of_both_languages_have_the_same_form() -> None:
    path = SUITE / "classic" / "MP+bar.litmus"
    for language, suffix in (("cuda", ".cu"), ("c11", ".c")):
        texts, refused = render_all([path], language)
        assert not refused
        assert {Path(name).suffix for name in texts} == {suffix, ".json"}
