"""Tile programs survive the way through JSON; what is not a program is refused."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from titan.codegen.tile.load import load_tile, targets_of
from titan.codegen.tile.stored import BadProgram, as_data, from_data
from titan.foundation.resources import root

FILES = sorted((root("protocols") / "tiles").glob("*.yaml"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_there_and_back(path):
    for target in targets_of(path):
        tile = load_tile(path, target=target)
        data = json.loads(json.dumps(as_data(tile), allow_nan=False))
        assert from_data(data) == replace(tile, note="", span=None)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("work", {"m": "__import__('os')"}),
        ("trip_count", 3),
        ("body", [{"name": "x"}]),
        ("groups", "many"),
        ("carried", [{"name": "x", "place": "nowhere"}]),
        ("tensors", None),
        ("extra", 1),
    ],
)
def test_what_is_no_program(key, value):
    data = as_data(load_tile(FILES[0], target=targets_of(FILES[0])[0]))
    with pytest.raises(BadProgram):
        from_data({**data, key: value})
