"""The snapshot of answers: what it holds of kernels and packages, and that differences are seen."""

from __future__ import annotations

import copy
import json

from benchmarks import snapshot

KERNEL = snapshot.ROOT / "examples" / "ring.yaml"
TILE = snapshot.ROOT / "protocols" / "tiles" / "copy.yaml"


def test_a_snapshot_holds_verdicts_states_and_bytes():
    found = snapshot.one(KERNEL, None) | snapshot.one(TILE, None)
    assert found["examples/ring.yaml#0"]["verdict"] == "verified"
    assert found["examples/ring.yaml#0"]["states"]["explorer"] > 10
    package = found["protocols/tiles/copy.yaml@sm_90a"]
    assert package["shape"]
    assert {"kernel.cu", "pipeline.yaml", "manifest.json"} <= package["sha256"].keys()
    assert json.loads(json.dumps(found)) == found
    assert snapshot.differences(found, found) == []
    other = copy.deepcopy(found)
    other["examples/ring.yaml#0"]["states"]["explorer"] += 1
    other["protocols/tiles/copy.yaml@sm_90a"]["sha256"]["kernel.cu"] = "0" * 64
    assert len(snapshot.differences(found, other)) == 2


def test_the_stored_snapshot_is_of_the_library():
    stored = snapshot.read(snapshot.STORED)
    assert {key.partition("@")[2] for key in stored} >= {"sm_90a", "sm_100a", "gfx942", "gfx950"}
    assert all(value["verdict"] == "verified" for value in stored.values())
    names = {snapshot.shown(TILE)}
    assert {key.partition("@")[0] for key in snapshot.of_files(stored, names)} == names
