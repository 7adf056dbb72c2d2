"""The examples of docs/reference/tile_language.md decode and run; its tables are complete."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from titan.codegen.tile.dtypes import DTYPES
from titan.codegen.tile.load import OPTIONAL, REQUIRED, parse_tile, targets_of
from titan.codegen.tile.operations import FUNCTIONS, KINDS
from titan.codegen.tile.semantics import reference64, run
from titan.foundation.resources import root
from titan.sync.expression import evaluate

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "tile_language.md").read_text("utf-8")
EXAMPLES = re.findall(r"```yaml\n(.*?)```", PAGE, re.S)


@pytest.mark.parametrize("text", EXAMPLES, ids=lambda text: text.split()[3])
def test_an_example_runs(text: str) -> None:
    tile = parse_tile(text)
    parameters = {item.name: 70 + 30 * i for i, item in enumerate(tile.parameters)}
    inputs = {
        tensor.name: np.random.default_rng(i).standard_normal(
            [evaluate(extent, parameters) for extent in tensor.shape]
        )
        for i, tensor in enumerate(tile.tensors)
        if not tensor.output
    }
    found, exact = run(tile, inputs, parameters), reference64(tile, inputs, parameters)
    for name, values in found.items():
        assert np.isfinite(values).all()
        np.testing.assert_allclose(values, exact[name], rtol=2e-2, atol=2e-2)


def test_the_tables_are_complete() -> None:
    rows = re.findall(r"^\| (`[^|]*) \|", PAGE.partition("## The library")[0], re.M)
    words = {word for row in rows for word in re.findall(r"`(\w+)`", row)}
    assert words >= set(KINDS) | set(REQUIRED) | set(OPTIONAL)
    assert words <= set(KINDS) | set(REQUIRED) | set(OPTIONAL)
    for word in (*DTYPES, *FUNCTIONS):
        assert f"`{word}`" in PAGE
    assert len(EXAMPLES) == 3


def test_the_library_is_listed_with_its_targets() -> None:
    library = PAGE.partition("## The library")[2]
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]*) \|", library, re.M))
    files = sorted((root("protocols") / "tiles").glob("*.yaml"))
    assert rows == {path.stem: ", ".join(targets_of(path)) for path in files}
