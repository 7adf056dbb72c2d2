"""`titan schedule` and `titan compare` from outside; schedule files, certificates, the cache."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from titan.cli.compare import compare
from titan.cli.schedule import schedule
from titan.foundation.resources import root
from titan.scheduling.cache import Cache, cache_key
from titan.scheduling.loop.load import load_loop
from titan.scheduling.run import Request, run
from titan.scheduling.store import as_data, certify, digest, read, write

LOOPS = root("protocols") / "loops"


def call(command, *arguments: str) -> tuple[int, str]:  # type: ignore[no-untyped-def]
    """Exit code and output; commands return their code."""
    result = CliRunner().invoke(command, list(arguments), standalone_mode=False)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return int(result.return_value or 0), result.output


def test_the_report_says_what_is_proved_and_why() -> None:
    code, text = call(schedule, str(LOOPS / "fa3_forward.yaml"))
    assert code == 0
    for word in (
        "initiation interval 2048",
        "optimal interval: it equals the resource: TC",
        "first GEMM moved into the prologue",
        "ping-pong",
        "prologue:",
        "steady state",
        "epilogue:",
        "registers of consumer0",
        "consumer1",
    ):
        assert word in text, word


def test_all_outputs_are_well_formed(tmp_path: Path) -> None:
    names = {k: str(tmp_path / f"x.{k}") for k in ("svg", "html", "trace", "save", "certificate")}
    options = [part for key, path in names.items() for part in (f"--{key}", path)]
    code, _ = call(schedule, str(LOOPS / "toy_fa_hopper.yaml"), *options)
    assert code == 0
    picture = ElementTree.parse(names["svg"]).getroot()
    boxes = [e for e in picture.iter() if e.tag.endswith("rect")]
    assert len(boxes) >= 8
    page = Path(names["html"]).read_text()
    assert "<svg" in page and "http" not in page.replace("http://www.w3.org/2000/svg", "")
    events = json.loads(Path(names["trace"]).read_text())["traceEvents"]
    assert {e["ph"] for e in events} == {"M", "X"}
    for name in ("save", "certificate"):
        code, text = call(schedule, str(LOOPS / "toy_fa_hopper.yaml"), "--check", names[name])
        assert code == 0 and "holds" in text


@pytest.mark.parametrize(
    ("change", "code", "word"),
    [
        (lambda d: d["operations"]["O0"].update(cycle=0), 1, "dependence"),
        (lambda d: d.update(ii=3), 1, "capacity"),
        (lambda d: d["operations"]["LK"].update(group="consumer0"), 1, "variable-latency"),
        (lambda d: d["claim"].update(lower_bound=5), 1, "the bound is 4, not 5"),
        (lambda d: d.update(loop_digest="0" * 64), 1, "another loop"),
        (lambda d: d.update(length=1), 1, "completion"),
        (lambda d: d["operations"].pop("S0"), 2, "lacks operation"),
        (lambda d: d["operations"].update(X={"cycle": 1}), 2, "no operation"),
        (lambda d: d["operations"]["S0"].update(cycle="soon"), 2, "integer"),
        (lambda d: d["operations"]["S0"].update(group="nobody"), 2, "nobody"),
        (lambda d: d.update(ii=0), 2, "at least 1"),
        (lambda d: d.pop("ii"), 2, "lacks"),
    ],
)
def test_check_refuses_what_is_wrong(
    tmp_path: Path, change: Callable[[dict[str, Any]], object], code: int, word: str
) -> None:
    path = LOOPS / "toy_fa_hopper.yaml"
    result = run(load_loop(path), Request())
    assert result.schedule is not None
    data = as_data(result.loop, result.schedule, result.evidence)
    change(data)
    write(tmp_path / "s.json", data)
    runner = CliRunner()
    found = runner.invoke(
        schedule, [str(path), "--check", str(tmp_path / "s.json")], standalone_mode=False
    )
    assert found.return_value == code, found.output
    assert word in found.output + (found.stderr or ""), found.output


def test_bad_input_has_exit_code_2(tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("titan: 1\nloop: x\ntarget: sm_90a\noperations: {a: {uses: {TCC: 1}}}\n")
    for path in (bad, tmp_path / "missing.yaml"):
        result = CliRunner().invoke(schedule, [str(path)], standalone_mode=False)
        assert result.return_value == 2


def test_comparison_of_solvers_and_of_loops() -> None:
    path = str(LOOPS / "toy_fa_hopper.yaml")
    code, text = call(compare, "rau", "joint", "--loop", path)
    assert code == 0 and "interval of B over A: 1.0000" in text
    code, text = call(compare, path, str(LOOPS / "fa_simplified.yaml"))
    assert code == 0 and "interval of B over A: 0.5000" in text


def test_json_format() -> None:
    code, text = call(schedule, str(LOOPS / "fa_simplified.yaml"), "--format", "json")
    data = json.loads(text)[0]
    assert code == 0 and data["ii"] == 2 and data["evidence"]["kind"] == "bound"


def test_cache_hits_hold_and_tampering_is_a_miss(tmp_path: Path) -> None:
    loop, path = load_loop(LOOPS / "toy_gemm.yaml"), tmp_path / "c" / "cache.sqlite"
    with Cache(path) as cache:
        first = cache.run(loop, Request())
        second = cache.run(loop, Request())
        assert (cache.hits, cache.misses) == (1, 1)
        assert second.cached and second.schedule == first.schedule
        assert cache.database is not None
        cache.database.execute(
            "UPDATE results SET content = replace(content, '\"ii\": 2', '\"ii\": 1')"
        )
        third = cache.run(loop, Request())
        assert not third.cached and cache.misses == 2
        cache.database.execute("UPDATE results SET content = 'nonsense'")
        assert not cache.run(loop, Request()).cached
    assert cache_key(loop, Request()) != cache_key(loop, Request(total_max=100))


def test_digests_tell_loops_apart() -> None:
    digests = {digest(load_loop(path)) for path in LOOPS.glob("*.yaml")}
    assert len(digests) == len(list(LOOPS.glob("*.yaml")))


def test_a_file_that_was_written_is_read_back(tmp_path: Path) -> None:
    result = run(load_loop(LOOPS / "fa_simplified.yaml"), Request())
    assert result.schedule is not None
    write(tmp_path / "a.json", as_data(result.loop, result.schedule, result.evidence))
    found, claim = read(tmp_path / "a.json", result.loop)
    assert found == result.schedule
    assert certify(result.loop, found, claim) == []


def test_gauss_without_pytorch_is_bad_usage() -> None:
    try:
        import torch  # noqa: F401
    except ImportError:
        result = CliRunner().invoke(
            schedule, [str(LOOPS / "toy_gemm.yaml"), "--solver", "gauss"], standalone_mode=True
        )
        assert result.exit_code == 2
        assert "PyTorch" in result.output + result.stderr
    else:
        pytest.skip("PyTorch is installed")


def test_no_time_is_undecided_or_a_schedule_that_claims_nothing() -> None:
    """What a budget suffices for depends on the machine; what it does not prove is not claimed."""
    slow = str(LOOPS / "gemm_epilogue.yaml")
    result = CliRunner().invoke(
        schedule, [slow, "--solver", "joint", "--budget", "0.05"], standalone_mode=False
    )
    if result.return_value == 3:
        assert "no schedule found" in result.output
    else:
        assert result.return_value == 0
        assert "not proved optimal" in result.output


def test_every_kind_of_fault_has_a_rule() -> None:
    from titan.cli.schedule import RULES
    from titan.foundation.diagnostics.codes import CODES
    from titan.scheduling.check import KINDS

    assert set(RULES) == {*KINDS, "claim"}
    assert all(CODES[code].family == "schedules" for code in RULES.values())


@pytest.mark.heavy
@pytest.mark.long
def test_specialisation_always_never_and_by_the_number_of_tiles(tmp_path: Path) -> None:
    """One group pools the registers and starts late: better for many tiles, worse for few."""
    path = str(LOOPS / "gemm_epilogue.yaml")
    options = ["--resolution", "100", "--budget", "20", "--specialise"]
    saved = str(tmp_path / "s.json")
    code, never = call(schedule, path, *options, "never", "--save", saved)
    assert code == 0
    code, text = call(schedule, path, "--check", saved, "--specialise", "never")
    assert code == 0 and "holds" in text
    code, few = call(schedule, path, *options, "auto", "--tiles", "2")
    assert code == 0 and "warp groups are used" in few
    code, many = call(schedule, path, *options, "auto", "--tiles", "64")
    assert code == 0 and "one group is used" in many
    common, special = (int(x.split("interval ")[1].split(",")[0]) for x in (never, few))
    assert common < special


def test_a_last_resort_says_what_failed_before() -> None:
    options = ["--specialise", "never", "--solver", "rau", "--budget", "0.5"]
    path = str(LOOPS / "fa3_backward.yaml")
    code, text = call(schedule, path, *options)
    assert code == 0 and "no slot for" in text and "its dependences permit" in text
    code, text = call(schedule, path, *options, "--format", "json")
    data = json.loads(text)[0]
    assert code == 0 and data["failures"] and "no slot for" in data["failures"][0]
    first = data["operations"][0]
    assert set(first) == {"name", "cycle", "stage", "row", "end", "group", "warps", "units"}
    assert all(op["cycle"] == op["stage"] * data["ii"] + op["row"] for op in data["operations"])


def test_a_damaged_cache_is_told_and_not_used(tmp_path: Path) -> None:
    path = tmp_path / "schedules.sqlite"
    path.write_bytes(b"this is no database, whatever its name says" * 40)
    before = path.read_bytes()
    code, text = call(schedule, str(LOOPS / "toy_gemm.yaml"), "--cache", str(path))
    assert code == 0 and "initiation interval" in text and "is left as it is" in text
    assert path.read_bytes() == before


def test_naive_registers_that_pass_a_limit_give_no_schedule() -> None:
    loop = str(LOOPS / "gemm_epilogue.yaml")
    code, text = call(schedule, loop, "--registers", "naive", "--solver", "rau")
    assert code == 3
    assert "that ignores limits is not kept: warp group `consumer0` holds" in text


@pytest.mark.parametrize("form", ["text", "json"])
def test_times_are_shown_when_asked_for_alone(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every stopwatch shows another time; the reports differ with `--timings` alone."""
    from itertools import count

    from titan.cli.build import build
    from titan.scheduling.work import Stopwatch

    now = count(1_000_000, 3600)
    monkeypatch.setattr(Stopwatch, "seconds", property(lambda self: float(next(now))))
    loop, tile = str(LOOPS / "toy_gemm.yaml"), str(root("protocols") / "tiles" / "gemm.yaml")
    building = (tile, "--no-compile", "--no-cache", "--target", "sm_90a", "-j", "1")
    monkeypatch.chdir(tmp_path)
    asked = [
        (schedule, (loop, "--format", form)),
        (build, (*building, "--format", form)),
        *([(compare, ("rau", "joint", "--loop", loop))] if form == "text" else []),
    ]
    for command, arguments in asked:
        first = call(command, *arguments)
        assert first[0] == 0
        assert call(command, *arguments) == first
        with_times = [call(command, *arguments, "--timings") for _ in range(2)]
        assert with_times[0] != with_times[1]
        assert all(code == 0 for code, _ in with_times)
