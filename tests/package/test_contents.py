"""Reading of packages without trust, canonical texts, and where two values differ."""

from __future__ import annotations

import os
from dataclasses import replace
from random import Random

import pytest

from tests.rings import ring
from titan.language.kernel.decode import decode_text
from titan.package import canonical, contents
from titan.package.contents import Broken
from titan.package.difference import difference
from titan.sync.expression import Constant
from titan.sync.program import Arrive, Loop
from titan.verify.lowering import sync_program

GEMM = """\
titan: 1
kernel: gemm
target: sm_90a
sizes: {tiles: {any: true, minimum: 1}, depth: 2}
buffers:
  a: {stages: depth, tile: [128, 64], dtype: bf16, swizzle: 128B}
rings:
  r: {buffers: [a], depth: depth}
roles:
  producer: {warps: 1, registers: 40}
  consumer: {warpgroups: 1, registers: 232}
program:
  producer:
    - for: t in 0..tiles
      do:
        - acquire: r[t]
        - produce: r[t]
    - finalize
  consumer:
    - compute: acc
    - for: t in 0..tiles
      do:
        - wait: r[t]
        - issue: {mma: [a[t], a[t]], as: acc_next}
        - drain: acc_next
        - release: r[t]
    - finalize
"""


def program_of(text: str, computations: bool = False):
    family, errors = decode_text(text, computations=computations)
    assert family is not None, errors
    return sync_program(family.kernels[0]).program


def package(folder):
    folder.mkdir()
    for name in (*contents.FIXED, *contents.SOURCES[0], contents.CERTIFICATE):
        (folder / name).write_text("{}")
    return folder


def test_a_package_is_read_whole(tmp_path):
    files = contents.read_package(package(tmp_path / "p"))
    assert set(files) == {*contents.FIXED, *contents.SOURCES[0], contents.CERTIFICATE}
    assert contents.is_package(tmp_path / "p") and not contents.is_package(tmp_path)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda folder: (folder / "certificate.json").unlink(), "lacks certificate.json"),
        (lambda folder: (folder / "tile.yaml").unlink(), "lacks tile.yaml"),
        (lambda folder: (folder / "kernel.cu").unlink(), "one source"),
        (lambda folder: (folder / "kernel.hip.cpp").write_text(""), "one source"),
        (lambda folder: (folder / "run.sh").write_text(""), "run.sh"),
        (lambda folder: (folder / "sub").mkdir(), "sub"),
        (
            lambda folder: ((folder / "tile.yaml").unlink(), (folder / "tile.yaml").mkdir()),
            "tile.yaml|directory|regular",
        ),
        (
            lambda folder: (
                (folder / "tile.yaml").unlink(),
                (folder / "tile.yaml").symlink_to(folder / "kernel.cu"),
            ),
            "cannot be read",
        ),
        (
            lambda folder: (
                (folder / "tile.yaml").unlink(),
                os.mkfifo(folder / "tile.yaml"),
            ),
            "regular",
        ),
        (
            lambda folder: (folder / "kernel.cu").write_bytes(b"x" * (contents.BYTES_MAX + 1)),
            "larger",
        ),
    ],
)
def test_what_is_no_package_is_refused(tmp_path, change, told):
    folder = package(tmp_path / "p")
    change(folder)
    with pytest.raises(Broken, match=told):
        contents.read_package(folder)


@pytest.mark.parametrize(
    "text", ['{"a": 1, "a": 2}', "[NaN]", "[1, ", "\xff", "[" * 5000, "[" * 70 + "]" * 70]
)
def test_json_that_is_ambiguous_or_hostile_is_refused(text):
    with pytest.raises(Broken):
        contents.from_json(text.encode("latin-1"), "x.json")


def test_json_is_written_and_read_back_the_same():
    data = {"b": [1, "é", None, True], "a": {"c": 1.5}}
    raw = contents.to_json(data)
    assert contents.from_json(raw, "x") == data and contents.to_json(data) == raw


@pytest.mark.parametrize(
    ("one", "other", "told"),
    [
        ({"a": 1}, {"a": True}, "`a` is true, not 1"),
        ({"a": 1}, {"a": 1.0}, "`a` is 1.0, not 1"),
        ({"a": {"b": 1}}, {"a": {"b": 2}}, "`a.b` is 2, not 1"),
        ({"a": 1}, {}, "the content lacks `a`"),
        ({"a": {"b": 1}}, {"a": {}}, "`a` lacks `b`"),
        ({}, {"a": 1}, "unknown key `a`"),
        ([1, 2], [1], "1 items, not 2"),
        ([{"a": ""}], [{"a": "x"}], "`[0].a` is x"),
    ],
)
def test_the_first_difference_is_told(one, other, told):
    assert told in (difference(one, other) or "")
    assert difference(one, one) is None


def test_equal_programs_have_one_digest():
    assert canonical.digest(program_of(GEMM)) == canonical.digest(program_of(GEMM + "\n# more\n"))
    programs = [ring(Random(seed)) for seed in range(60)]
    for one in programs:
        for other in programs:
            assert (canonical.canonical(one) == canonical.canonical(other)) == (one == other)


def test_every_change_of_a_program_changes_its_text():
    program = program_of(GEMM)
    texts = {canonical.canonical(program)}
    changed = 0
    for number, role in enumerate(program.roles):
        loop = next(item for item in role.body if isinstance(item, Loop))
        for position, operation in enumerate(loop.body):
            bodies = [loop.body[:position] + loop.body[position + 1 :]]
            if isinstance(operation, Arrive):
                other = replace(operation, count=Constant(2))
                bodies.append((*loop.body[:position], other, *loop.body[position + 1 :]))
            if position:
                swapped = list(loop.body)
                swapped[position - 1 : position + 1] = reversed(
                    swapped[position - 1 : position + 1]
                )
                bodies.append(tuple(swapped))
            for body in bodies:
                inner = tuple(replace(loop, body=body) if x is loop else x for x in role.body)
                roles = list(program.roles)
                roles[number] = replace(role, body=inner)
                texts.add(canonical.canonical(replace(program, roles=tuple(roles))))
                changed += 1
    for barrier in program.barriers:
        others = tuple(replace(b, count=b.count + (b is barrier)) for b in program.barriers)
        texts.add(canonical.canonical(replace(program, barriers=others)))
        changed += 1
    assert changed > 10 and len(texts) == changed + 1


def test_computations_and_names_are_told_apart():
    bare, full = program_of(GEMM), program_of(GEMM, computations=True)
    assert canonical.digest(bare) != canonical.digest(full)
    assert canonical.for_engines(full) == bare
    renamed = program_of(GEMM.replace("kernel: gemm", "kernel: other"))
    assert canonical.digest(renamed) != canonical.digest(bare)
    assert canonical.nameless(renamed) == canonical.nameless(full)
