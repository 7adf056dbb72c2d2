"""Packages: the same bytes twice, refused when anything is altered, with or without digests."""

from __future__ import annotations

import copy
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.package.built import GEMM, built, forged, write
from titan.codegen.pipeline.model import Shape
from titan.foundation.verdict import Verdict
from titan.package import contents
from titan.package.certificate import sealed
from titan.package.check import check_package
from titan.package.verdicts import answer, fault_of
from titan.package.write import NotPackable, is_ours, package_files, write_package


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    return package_files(*built())


def refusal(tmp_path, files: dict[str, bytes]) -> str:
    """Why the package is refused, its verdict included; empty where it is not."""
    checked = check_package(write(tmp_path / "p", files))
    for path in (tmp_path / "p").iterdir():
        path.unlink()
    (tmp_path / "p").rmdir()
    if checked.fault or checked.question is None:
        return checked.fault
    return fault_of(checked.question, answer(checked.question, 20.0))


def places(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all values of a JSON document that are no containers, and of all containers."""
    if path:
        yield path
    if isinstance(data, dict):
        for key, value in data.items():
            yield from places(value, (*path, key))
    elif isinstance(data, list):
        for number, value in enumerate(data):
            yield from places(value, (*path, number))


def altered(data: Any, path: tuple[Any, ...]) -> Any:
    """A copy with the value at `path` changed within its type."""
    copied = copy.deepcopy(data)
    holder = copied
    for key in path[:-1]:
        holder = holder[key]
    value = holder[path[-1]]
    match value:
        case bool():
            other: Any = not value
        case int():
            other = value + 1
        case float():
            other = value + 0.5
        case str():
            other = value + "x" if value else "x"
        case None:
            other = 1
        case dict():
            other = {**value, "more": 1}
        case _:
            other = [*value, 1]
    holder[path[-1]] = other
    return copied


def test_a_package_as_it_was_written_is_accepted(tmp_path, files):
    assert refusal(tmp_path, files) == ""
    checked = check_package(write(tmp_path / "q", files))
    assert (checked.name, checked.target) == ("small_gemm", "sm_90a")
    assert checked.stated == ()


def test_building_twice_gives_the_same_bytes(files):
    built.cache_clear()
    assert package_files(*built()) == files


def test_a_file_that_was_changed_is_named(tmp_path, files):
    for name in files:
        if name != contents.CERTIFICATE:
            told = refusal(tmp_path, {**files, name: files[name] + b" "})
            assert f"{name} was changed after the package was built" in told


def test_nothing_of_the_machine_is_in_a_package(tmp_path, files):
    import socket

    texts = [raw.decode() for raw in files.values()]
    for word in (str(tmp_path.parent), socket.gethostname() + ".", str(contents.__file__)):
        assert not any(word in text for text in texts), word


def test_every_field_of_the_certificate_is_under_its_digest(tmp_path, files):
    data = json.loads(files[contents.CERTIFICATE])
    paths = list(places(data))
    assert len(paths) > 60
    for path in paths:
        changed = {**files, contents.CERTIFICATE: contents.to_json(altered(data, path))}
        assert refusal(tmp_path, changed), path


# What a forger can write into a certificate without being found out: statements.
STATEMENTS = {("tools",)}


def test_a_forger_who_makes_the_digests_anew_is_found_out(tmp_path, files):
    data = json.loads(files[contents.CERTIFICATE])
    passed = set()
    for path in places(data):
        if path[0] in ("files", "digest"):
            continue  # made anew by the forger
        changed = {**files, contents.CERTIFICATE: contents.to_json(altered(data, path))}
        if not refusal(tmp_path, forged(changed)):
            passed.add(path[:1])
    assert passed == STATEMENTS


@pytest.mark.parametrize("name", [contents.SCHEDULE, contents.MANIFEST, contents.TIMELINE])
def test_a_forger_of_json_is_found_out(tmp_path, files, name):
    data = json.loads(files[name])
    tried: set[tuple[Any, ...]] = set()
    for path in places(data):
        kind = tuple("*" if isinstance(key, int) else key for key in path)
        if kind in tried:
            continue  # one of each kind of place in a list
        tried.add(kind)
        changed = {**files, name: contents.to_json(altered(data, path))}
        assert refusal(tmp_path, forged(changed)), path
    assert len(tried) > 5


def one_of_each_line(text: str) -> Iterator[int]:
    """A line of each kind: by the first function of `titan::` that it calls, or its first word."""
    kinds = set()
    for number, line in enumerate(text.split("\n")):
        called = re.search(r"titan::(\w+)", line) or re.search(r"[\w/#}{]+", line)
        kind = called.group() if called else ""
        if kind not in kinds:
            kinds.add(kind)
            yield number


def test_a_forger_of_the_source_is_found_out(tmp_path, files):
    text = files["kernel.cu"].decode()
    lines = text.split("\n")
    numbers = list(one_of_each_line(text))
    assert len(numbers) > 25
    for number in numbers:
        new = ([], [lines[number] + " "], [lines[number], lines[number]])[number % 3]
        changed = "\n".join([*lines[:number], *new, *lines[number + 1 :]]).encode()
        if changed != files["kernel.cu"]:
            told = refusal(tmp_path, forged({**files, "kernel.cu": changed}))
            assert "kernel.cu is not what is emitted" in told, lines[number]


@pytest.mark.parametrize("name", [contents.TILE, contents.PIPELINE, "titan_device.cuh"])
def test_a_forger_of_texts_is_found_out(tmp_path, files, name):
    lines = files[name].decode().split("\n")
    step = max(1, len(lines) // 12)
    for number in range(0, len(lines), step):
        for new in ([], [lines[number].replace("1", "2").replace("a", "e") + " #"]):
            changed = "\n".join([*lines[:number], *new, *lines[number + 1 :]]).encode()
            if changed != files[name]:
                told = refusal(tmp_path, forged({**files, name: changed}))
                comment = name == contents.TILE and (new or not lines[number].strip())
                assert told or comment, (number, lines[number])


def test_a_pipeline_that_is_consistent_but_another_one_is_refused(tmp_path, files):
    """A release too early, everything after it made anew: the construction does not give it."""
    text = files[contents.PIPELINE].decode()
    other = text.replace("leaving: 1", "leaving: 0")
    assert other != text
    changed = forged({**files, contents.PIPELINE: other.encode()})
    assert "is not the pipeline of" in refusal(tmp_path, changed)


def test_what_is_not_verified_is_not_written(tmp_path):
    made, emitted = built()
    finding = replace(made.finding, verdict=Verdict.UNDECIDED)
    with pytest.raises(NotPackable):
        write_package(tmp_path / "p", replace(made, finding=finding), emitted)
    with pytest.raises(NotPackable):
        result = replace(made.result, schedule=None)
        write_package(tmp_path / "p", replace(made, result=result), emitted)
    assert not (tmp_path / "p").exists()


def test_names_of_files_never_come_from_the_input(tmp_path):
    made, emitted = built()
    for name in ("../escape.cu", "kernel.sh", "certificate.json"):
        with pytest.raises(contents.Broken):
            strange = replace(emitted, files={**emitted.files, name: "x"})
            write_package(tmp_path / "p", made, strange)
    assert list(tmp_path.iterdir()) == []


def test_a_package_is_replaced_and_other_folders_are_not(tmp_path, files):
    write_package(tmp_path / "p", *built())
    write_package(tmp_path / "p", *built())
    assert {path.name: path.read_bytes() for path in (tmp_path / "p").iterdir()} == files
    (tmp_path / "p" / "notes.txt").write_text("mine")
    assert not is_ours(tmp_path / "p")


def test_the_check_loads_no_solver(tmp_path, files):
    write(tmp_path / "p", files)
    code = (
        "import sys; from titan.package.check import check_package; "
        "from titan.package.verdicts import answer, fault_of; "
        f"c = check_package({str(tmp_path / 'p')!r}); assert not c.fault, c.fault; "
        "assert not fault_of(c.question, answer(c.question, 20.0)); "
        "print([m for m in ('z3', 'pysmt', 'ortools', 'pysat', 'cvc5') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_text_of_the_tile_program_is_the_one_given(files):
    assert files[contents.TILE].decode() == GEMM


def test_candidates_are_of_the_fixed_list_each_once_in_any_order(tmp_path, files):
    """Their order is that of a model; what of the schedule was not taken stands before them."""
    data = json.loads(files[contents.CERTIFICATE])
    (*_, taken) = data["pipeline"]["candidates"]

    def of(*more: dict[str, Any]) -> str:
        changed = copy.deepcopy(data)
        changed["pipeline"]["candidates"] = [
            *({"shape": {**taken["shape"], **one}, "taken": False, "reason": "so"} for one in more),
            taken,
        ]
        text = contents.to_json(sealed(changed))
        return refusal(tmp_path, {**files, contents.CERTIFICATE: text})

    plain = {name: getattr(Shape("", 1), name) for name in taken["shape"]}
    groups = {**plain, "name": "groups of the schedule", "depth": 2}
    one = {**plain, "name": "no pipeline", "depth": 1, "specialised": False, "overlapped": False}
    assert of(groups) == of(one) == of(groups, one) == ""
    for wrong in ((one, one), (groups, groups), ({**groups, "name": "of nothing"},), ({},)):
        assert "is not of the fixed list of shapes, or there twice" in of(*wrong)
