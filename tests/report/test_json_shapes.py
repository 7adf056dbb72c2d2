"""`titan schema report` is true of what each command writes as JSON, and says all of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click
import jsonschema
import pytest

from tests.frontends.test_replay_code import saved
from tests.inspect.test_listing import MAIN_LOOP
from titan.cli.main import run, titan
from titan.cli.schema import text_of
from titan.foundation.resources import root

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PROTOCOLS = root("protocols")
SCHEMA = json.loads(text_of("report"))
ELSEWHERE = {"verify": "verify", "gate": "gate", "litmus check": "litmus", "stress": "stress"}

# By definition of the schema: command lines, each with its exit code. Names in capitals are files.
COMMANDS: dict[str, list[tuple[str, int]]] = {
    "fences": [("fences GOOD BARE AMD", 1), ("fences WASTED", 0), ("fences NOTHING", 2),
               ("fences BARE --fix --output fixed.yaml", 0)],
    "mutants": [("mutants GOOD --budget-states 2000", 0)],
    "rules": [("rules", 0), ("rules --family input", 0)],
    "explain": [("explain invalid-syntax data-race redundant-fence", 0)],
    "inspect": [("inspect LISTING", 1)],
    "build": [
        ("build TILE --target sm_90a --no-compile --no-cache", 0),
        ("build TILE --target sm_90a --no-compile --no-cache --explain --timings", 0),
    ],
    "schedule": [("schedule LOOP", 0), ("schedule LOOP --timings --solver joint", 0)],
    "pareto": [("schedule LOOP --pareto", 0)],
    "replay": [("replay CODE_TRACE", 1)],
    "verify": [("replay TRACE", 1)],
    "diagnostics": [("replay NOTHING", 2)],
}  # fmt: skip
LINES = [(shape, line, code) for shape, lines in COMMANDS.items() for line, code in lines]


def validator(shape: str) -> jsonschema.Draft202012Validator:
    assert {"$ref": f"#/$defs/{shape}"} in SCHEMA["anyOf"]
    return jsonschema.Draft202012Validator({**SCHEMA["$defs"][shape], "$defs": SCHEMA["$defs"]})


def given(name: str, folder: Path) -> str:
    """The file that a name in capitals means, made where it is not shipped."""
    path = folder / name.lower()
    shipped = {
        "LOOP": PROTOCOLS / "loops" / "toy_gemm.yaml", "TILE": PROTOCOLS / "tiles" / "gemm.yaml",
        "GOOD": EXAMPLES / "ring.yaml", "AMD": EXAMPLES / "lds_dma.yaml",
        "WASTED": PROTOCOLS / "fa3_backward.yaml",
    }  # fmt: skip
    if name in shipped:
        return str(shipped[name])
    if name == "BARE":
        path = path.with_suffix(".yaml")
        text = (PROTOCOLS / "fa3_backward.yaml").read_text(encoding="utf-8")
        lines = [line for line in text.splitlines(keepends=True) if "fence: async" not in line]
        path.write_text("".join(lines), encoding="utf-8")
    elif name == "LISTING":
        path = path.with_suffix(".sass")
        path.write_text(MAIN_LOOP, encoding="utf-8")
    elif name == "CODE_TRACE":
        return saved("nobody releases", folder)
    elif name == "TRACE":
        run(["verify", str(EXAMPLES / "early_release.yaml"), "--output", str(folder / "out")])
        (found,) = Path(".titan/traces").glob("*.json")
        return str(found)
    else:
        path = path.with_suffix(".yaml")
        path.write_text("kernel: [", encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(("shape", "line", "code"), LINES, ids=[line for _, line, _ in LINES])
def test_what_a_command_writes_has_its_shape(
    shape: str, line: str, code: int, tmp_path: Path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    words = [given(word, tmp_path) if word.isupper() else word for word in line.split()]
    capsys.readouterr()
    assert run([*words, "--format", "json"]) == code
    data = json.loads(capsys.readouterr().out)
    assert data
    valid = validator(shape)
    assert [f"{e.json_path}: {e.message}" for e in valid.iter_errors(data)] == []
    jsonschema.Draft202012Validator(SCHEMA).validate(data)
    first = data[0] if isinstance(data, list) else data
    first["a key that nothing writes"] = 1
    assert not valid.is_valid(data)
    del first["a key that nothing writes"], first[next(iter(first))]
    assert not valid.is_valid(data)


def commands(group: click.Group, before: tuple[str, ...] = ()) -> Iterator[str]:
    """The commands that can write JSON."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, (*before, name))
        for option in command.params:
            if isinstance(option.type, click.Choice) and "json" in option.type.choices:
                yield " ".join((*before, name))


def test_no_command_writes_json_without_a_shape():
    tried = {line.split()[0] for _, line, _ in LINES}
    assert sorted(commands(titan)) == sorted(tried | set(ELSEWHERE))
    shapes = {one["$ref"].rpartition("/")[2] for one in SCHEMA["anyOf"]}
    assert shapes == set(COMMANDS) | set(ELSEWHERE.values())
