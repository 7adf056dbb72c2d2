"""Writes rendered tests as files: all of them, each one whole, or none.

Names of files are made from those of the tests' files and their folders, with every character that
is not plainly safe replaced; two tests that would get the same name are distinguished by a number.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from titan.foundation.atomic import write_files
from titan.litmus.language.suite import read_test
from titan.litmus.render.c11 import render_c11
from titan.litmus.render.hip import render_hip
from titan.litmus.render.kernel import render
from titan.litmus.render.outcomes import verdict_of
from titan.litmus.render.refusal import NotRenderable

_UNSAFE = re.compile(r"[^A-Za-z0-9_+-]")
_NAME_CHARACTERS_MAX = 100
RENDERERS = {"cuda": render, "hip": render_hip, "c11": render_c11}


def render_all(
    paths: Sequence[Path],
    language: str | None = None,
    report: Callable[[int, int], None] = lambda done, of: None,
) -> tuple[dict[str, str], list[tuple[Path, NotRenderable]]]:
    """Name of a file -> its text, for each test a source and a manifest; and who was refused.

    `language` is `cuda`, `hip` or `c11`; None is that of the device that the test is about. The
    solver is asked about each test, so that many take minutes: `report` gets how many are done.
    """
    texts: dict[str, str] = {}
    refused: list[tuple[Path, NotRenderable]] = []
    for number, path in enumerate(paths):
        report(number, len(paths))
        try:
            test = read_test(path)
            renderer = RENDERERS[language or ("hip" if test.dialect.amd else "cuda")]
            renderer(test)  # refused before the solver is asked
            rendering = renderer(test, verdict_of(test))
        except NotRenderable as error:
            refused.append((path, error))
            continue
        name = _free_name(path, texts)
        source = name + rendering.suffix
        manifest = {"source": source, **rendering.manifest}
        texts[source] = rendering.source
        texts[f"{name}.json"] = json.dumps(manifest, indent=2) + "\n"
    return texts, refused


def _free_name(path: Path, taken: Mapping[str, str]) -> str:
    folder = _UNSAFE.sub("_", path.resolve().parent.name)
    plain = f"{folder}-{_UNSAFE.sub('_', path.stem)}"[:_NAME_CHARACTERS_MAX].lstrip("-")
    name, number = plain, 1
    while f"{name}.json" in taken:
        number += 1
        name = f"{plain}-{number}"
    return name


def write_all(folder: Path, texts: Mapping[str, str]) -> None:
    """Write all files, or none where one cannot be written. Raises OSError."""
    write_files(folder, {name: text.encode("utf-8") for name, text in texts.items()})
