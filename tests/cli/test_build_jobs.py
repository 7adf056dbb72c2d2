"""`titan build` of several programs in several processes: the same packages, reports and codes."""

from __future__ import annotations

import json

import pytest

from tests.cli.test_cluster import run
from tests.sampling import sampled
from titan.foundation.resources import root

TILES = root("protocols") / "tiles"
NAMES = ("row_sum.yaml", "gemm_small_tiles.yaml", "copy_gfx942.yaml")


@pytest.fixture
def folder(tmp_path):
    """Three programs, and one between them that no shape fits: a tile too large for a ring."""
    place = tmp_path / "tiles"
    place.mkdir()
    for number, name in enumerate(NAMES):
        (place / f"{number}_{name}").write_text((TILES / name).read_text())
    text = (TILES / "gemm.yaml").read_text()
    wrong = text.replace(
        "rows: 128, columns: 128, k_tile: 64", "rows: 128, columns: 256, k_tile: 512"
    )
    assert wrong != text
    (place / "1_wrong.yaml").write_text(wrong.replace("tile: gemm", "tile: wrong"))
    return place


def packages(place):
    return {
        str(path.relative_to(place)): path.read_bytes()
        for path in sorted(place.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize("form", sampled(["json", "text"], every=2))
def test_processes_change_nothing(folder, tmp_path, capsys, form):
    found = []
    for jobs in ("1", "3"):
        place = tmp_path / jobs
        options = ["-o", str(place), "-j", jobs, "--no-compile", "--no-cache", "--format", form]
        code = run(["build", str(folder), *options])
        out, err = capsys.readouterr()
        found.append((code, out.replace(str(place), "OUT"), err, packages(place)))
    assert found[0] == found[1]
    code, out, err, made = found[0]
    assert code == 1
    assert err.startswith("REFUSED wrong (")
    assert len({name.split("/")[0] for name in made}) == 5
    if form == "json":
        assert next(item["kernel"] for item in json.loads(out)) == "row_sum"
    else:
        assert out.index("row_sum") < out.index("gemm_small_tiles") < out.index("copy_gfx942")
