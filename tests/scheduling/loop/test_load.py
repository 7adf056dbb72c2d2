"""Loop and machine files: every fault is a diagnostic with a place, and nothing hangs."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.sampling import part
from titan.foundation.resources import root
from titan.scheduling.loop.bounds import bounds
from titan.scheduling.loop.graphml import load_instance
from titan.scheduling.loop.load import load_loop, parse_loop
from titan.target.load import TargetRefused, known_machines, machine, parse_machine

GOOD = """\
titan: 1
loop: small
target: toy_hopper
operations:
  S: {uses: {TC: 1}, warps: 4}
  P: {uses: {SFU: 1}, warps: 4}
dependences:
  - {from: S, to: P}
  - {from: P, to: S, distance: 1}
"""


def faults(text: str) -> list[tuple[str, str, int, int]]:
    with pytest.raises(TargetRefused) as caught:
        parse_loop(text, "k.yaml")
    found = []
    for item in caught.value.diagnostics:
        assert item.span is not None, item
        assert item.headline[0] != item.headline[0].upper() or item.headline[0] == "`"
        found.append((item.code, item.headline, item.span.start_line, item.span.start_column))
    return found


def test_a_good_file_is_read() -> None:
    loop = parse_loop(GOOD)
    assert [op.name for op in loop.operations] == ["S", "P"]
    assert loop.dependences[0].delay_cycles == 1
    assert [group.name for group in loop.groups] == ["producer", "consumer0", "consumer1"]
    assert loop.graph().number_of_edges() == 2


def test_an_operation_of_an_inner_loop_comes_after_the_operation_that_the_loop_is() -> None:
    nested = GOOD.replace(
        "P: {uses: {SFU: 1}, warps: 4}", "P: {uses: {SFU: 1}, warps: 4, inside: S}"
    )
    loop = parse_loop(nested)
    assert loop.parents == (None, 0)
    last = loop.dependences[-1]
    assert (last.source, last.sink, last.delay_cycles, last.kind) == (0, 1, 0, "order")
    assert faults(nested.replace("inside: S", "inside: T"))[0][0] == "TTN011"
    assert faults(nested.replace("inside: S", "inside: P"))[0][0] == "TTN512"


def test_named_barriers_and_copy_queues_are_units_of_a_machine() -> None:
    """Fifteen slots; a queue of one place raises the interval to how long a copy holds it."""
    slots = machine("sm_100a_slots")
    assert len(slots.units) == 15 and {"NAMED_BARRIER", "COPY_QUEUE"} <= set(slots.units)
    loop = load_loop(root("protocols") / "loops" / "gemm_blackwell_slots.yaml")
    assert bounds(loop).ii == 512
    tight = {**slots.units, "COPY_QUEUE": replace(slots.units["COPY_QUEUE"], capacity=1)}
    bound = bounds(replace(loop, machine=replace(slots, units=tight))).best
    assert (bound.ii, bound.witness) == (556 + 660, ("COPY_QUEUE",))


def test_all_machines_and_all_loops_of_the_library_load() -> None:
    assert {"sm_90a", "sm_100a", "gfx942", "toy_hopper"} <= set(known_machines())
    for name in known_machines():
        assert machine(name).name == name
        assert machine(name).units
    files = sorted((root("protocols") / "loops").glob("*.yaml"))
    assert len(files) >= 12
    for path in files:
        assert load_loop(path).name == path.stem


@pytest.mark.parametrize(
    ("old", "new", "code", "word", "line"),
    [
        ("target: toy_hopper", "target: toy_hoper", "TTN010", "toy_hoper", 3),
        ("{TC: 1}", "{TX: 1}", "TTN513", "TX", 5),
        ("{TC: 1}", "{TC: 0}", "TTN514", "at least 1", 5),
        ("{TC: 1}", "{TC: -3}", "TTN514", "at least 1", 5),
        ("{TC: 1}", "{TC: {cycles: 1, amount: 2}}", "TTN514", "takes 2 of TC", 5),
        ("{TC: 1}", "{TC: 99999999999}", "TTN009", "at most", 5),
        ("warps: 4}\n  P", "warps: 8}\n  P", "TTN517", "no warp group can run", 5),
        ("to: P}", "to: P, delay: -1}", "TTN511", "at least 0", 8),
        ("to: P}", "to: Q}", "TTN011", "Q", 8),
        ("distance: 1", "distance: 0", "TTN512", "cycle", 5),
        ("to: S, distance: 1", "to: P", "TTN512", "itself", 9),
        ("distance: 1", "distance: x", "TTN008", "integer", 9),
        ("distance: 1", "distance: -2", "TTN511", "at least 0", 9),
        ("to: P}", "to: P, hold: -5}", "TTN511", "at least 0", 8),
        ("{TC: 1}", "{TC: {cycles: 0}}", "TTN514", "at least 1", 5),
        ("{TC: 1}", "{TC: {cycles: 1, from: -1}}", "TTN514", "at least 0", 5),
        ("{TC: 1}", "{TC: {cycles: 1, amount: 0}}", "TTN514", "at least 1", 5),
        ("target: toy_hopper", "target: toy_hopper\nunits: {AUX: 0}", "TTN515", "at least 1", 4),
        ("titan: 1", "titan: 2", "TTN016", "version", 1),
        ("operations:", "operatons:", "TTN006", "operatons", 4),
        ("loop: small", "loop: 3x", "TTN008", "identifier", 2),
        ("{from: S, to: P}", "{from: S}", "TTN007", "lacks", 8),
        ("  S: {", "  S: {holds: {shard: 3}, ", "TTN011", "shard", 5),
    ],
)
def test_a_fault_has_its_code_and_place(
    old: str, new: str, code: str, word: str, line: int
) -> None:
    assert GOOD.count(old) == 1
    found = faults(GOOD.replace(old, new))
    assert any(c == code and word in text and at == line for c, text, at, _ in found), found


def test_all_faults_are_told_at_once_with_nearest_names() -> None:
    text = GOOD.replace("{TC: 1}", "{TCC: 1}").replace("to: P}", "to: PP}")
    assert {code for code, *_ in faults(text)} == {"TTN011", "TTN513"}
    assert len(faults(text)) == 2
    with pytest.raises(TargetRefused) as caught:
        parse_loop(text)
    assert any("TC" in text for d in caught.value.diagnostics for text in d.helps)


def test_limits_of_the_target_are_kept() -> None:
    groups = "warps: {a: {warps: 32, registers: 255}, b: {warps: 33, registers: 255}}\n"
    found = faults(GOOD.replace("operations:", groups + "operations:"))
    assert any("more than 64 warps" in text for _, text, *_ in found)
    assert any(code == "TTN406" for code, *_ in found)
    over = faults(GOOD.replace("operations:", "memories: {shared: 999999999}\noperations:"))
    assert any("at most" in text for _, text, *_ in over)


def test_a_million_operations_are_refused_quickly() -> None:
    rows = "".join(f"  o{i}: {{}}\n" for i in range(1_000_000))
    begin = time.process_time()
    found = faults(f"titan: 1\nloop: big\ntarget: toy_hopper\noperations:\n{rows}")
    assert time.process_time() - begin < 10
    assert found[0][0] == "TTN003"


def test_loops_of_too_many_cycles_are_refused() -> None:
    long = GOOD.replace("{TC: 1}", "{TC: 1000000}").replace("{SFU: 1}", "{SFU: 999999}")
    found = faults(long.replace("to: P}", "to: P, delay: 1000000, hold: 1000000}"))
    assert [code for code, *_ in found] == ["TTN003"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "3",
        "titan: 1",
        "loop: {}",
        "a: &a [*a]",
        "operations: {S: {S: {S: 1}}}",
        "{" * 500,
    ],
)
def test_broken_files_are_diagnosed(text: str) -> None:
    assert faults(text)


def test_machine_files_are_checked() -> None:
    good = "titan: 1\nmachine: m\nunits: {A: 1}\n"
    assert parse_machine(good).units["A"].capacity == 1
    for bad, word in (
        ("units: {A: 0}", "at least 1"),
        ("units: {A: 1}\npools: {p: {members: {B: 1}, amount: 1}}", "no unit"),
        ("units: {A: 1}\npools: {p: {members: {A: 1}, amount: 0}}", "at least 1"),
        ("units: {A: 1}\nmemories: {s: {capacity: -1}}", "at least 1"),
        ("units: {A: 1}\ncolour: red", "colour"),
    ):
        with pytest.raises(TargetRefused) as caught:
            parse_machine(f"titan: 1\nmachine: m\n{bad}\n", "m.yaml")
        if "at least 1" in word:
            assert [d.code for d in caught.value.diagnostics] == ["TTN515"], bad
        assert any(word in d.headline for d in caught.value.diagnostics), bad
        assert all(d.span is not None for d in caught.value.diagnostics)


def test_a_machine_of_the_user(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("titan: 1\nmachine: mine\nunits: {X: {capacity: 2}}\n")
    loop = tmp_path / "loop.yaml"
    loop.write_text("titan: 1\nloop: l\nmachine: mine.yaml\noperations: {a: {uses: {X: 3}}}\n")
    assert load_loop(loop).machine.name == "mine"


RESOURCES = """<?xml version="1.0"?>
<ModelInformation><Resources>
<Resource blockingTime="1" latency="2" limit="1" name="mem"/>
<Resource blockingTime="0" latency="0" limit="-1" name="free"/>
</Resources></ModelInformation>
"""
GRAPH = """<?xml version="1.0"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><graph>
<node id="1"><data key="uses_resource">mem</data></node>
<node id="2"><data key="uses_resource">free</data></node>
<edge id="e" source="1" target="2"><data key="delay">1</data><data key="distance">0</data></edge>
<edge id="f" source="2" target="1"><data key="delay">0</data><data key="distance">1</data></edge>
</graph></graphml>
"""


def test_public_instances_are_read(tmp_path: Path) -> None:
    (tmp_path / "g_RM.xml").write_text(RESOURCES)
    (tmp_path / "g.graphml").write_text(GRAPH)
    loop = load_instance(tmp_path / "g.graphml")
    assert [op.latency_cycles for op in loop.operations] == [2, 0]
    assert [(e.delay_cycles, e.distance) for e in loop.dependences] == [(3, 0), (0, 1)]
    assert loop.machine.units["mem"].capacity == 1 and "free" not in loop.machine.units


@pytest.mark.parametrize(
    ("old", "new", "code", "word"),
    [
        (">mem<", ">men<", "TTN513", "no resource"),
        ('target="2"', 'target="9"', "TTN001", "no node"),
        ('>1</data><data key="distance">0', '>-1</data><data key="distance">0', "TTN511", "delay"),
        ("</graph>", "", "TTN001", "well-formed"),
        ('<data key="distance">1', '<data key="distance">0', "TTN512", "cycle"),
        ("<graphml", "<!DOCTYPE x [<!ENTITY a 'b'>]><graphml", "TTN001", "entities"),
    ],
)
def test_broken_instances_are_diagnosed(
    tmp_path: Path, old: str, new: str, code: str, word: str
) -> None:
    assert old in GRAPH
    (tmp_path / "g_RM.xml").write_text(RESOURCES)
    (tmp_path / "g.graphml").write_text(GRAPH.replace(old, new))
    with pytest.raises(TargetRefused) as caught:
        load_instance(tmp_path / "g.graphml")
    assert word in caught.value.diagnostics[0].headline
    assert caught.value.diagnostics[0].code == code
    assert caught.value.diagnostics[0].span is not None


def test_a_resource_without_capacity_is_not_unlimited(tmp_path: Path) -> None:
    (tmp_path / "g_RM.xml").write_text(RESOURCES.replace('limit="1"', 'limit="0"'))
    (tmp_path / "g.graphml").write_text(GRAPH)
    with pytest.raises(TargetRefused) as caught:
        load_instance(tmp_path / "g.graphml")
    assert caught.value.diagnostics[0].code == "TTN515"


def test_too_many_operations_have_a_rule() -> None:
    rows = "".join(f"  o{i}: {{}}\n" for i in range(10_001))
    found = faults(f"titan: 1\nloop: big\ntarget: toy_hopper\noperations:\n{rows}")
    assert [(code, line) for code, _, line, _ in found] == [("TTN516", 5)]


SPOILERS = ("", "-", "0", "{", "}", ":", "[", "99999999999", "\t", "&a ", "*a")


def test_spoiled_files_are_read_or_diagnosed_never_more() -> None:
    """Random edits of every file of the library: a loop, or diagnostics with places."""
    import random

    rng = random.Random(7)
    refused = 0
    for path in sorted((root("protocols") / "loops").glob("*.yaml")):
        text = path.read_text(encoding="utf-8")
        for _ in range(part(24, 2)):
            spoiled = text
            for _ in range(rng.randint(1, 3)):
                at = rng.randrange(len(spoiled))
                cut = rng.choice((0, 1, 1, 5, 40))
                word = rng.choice(
                    ("", "-", "0", "{", "}", ":", "[", "99999999999", "\t", "&a ", "*a")
                )
                spoiled = spoiled[:at] + word + spoiled[at + cut :]
            try:
                loop = parse_loop(spoiled, "spoiled.yaml")
            except TargetRefused as error:
                refused += 1
                assert error.diagnostics
                assert all(d.span is not None for d in error.diagnostics), spoiled
            else:
                assert loop.operations
    assert refused > 50


def test_the_example_of_the_reference_is_read() -> None:
    page = Path(__file__).parents[3] / "docs" / "reference" / "schedule.md"
    block = page.read_text(encoding="utf-8").split("```yaml\n")[1].split("```")[0]
    loop = parse_loop(block)
    assert loop.index.keys() == {"LK", "S", "P"}
