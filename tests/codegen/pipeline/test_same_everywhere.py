"""The same input gives the same schedule and the same package, whatever the clock says."""

from __future__ import annotations

import ast
import time
from itertools import count
from pathlib import Path

import pytest

from tests.sampling import part
from titan.codegen.pipeline.build import BuildLimits, BuildRefused, scheduled
from titan.codegen.tile.load import load_tile
from titan.foundation.resources import root
from titan.package.produce import produce
from titan.scheduling.common import common_group
from titan.scheduling.loop.load import load_loop
from titan.scheduling.run import Request, run
from titan.scheduling.work import Stopwatch

TITAN = Path(__file__).resolve().parents[3] / "titan"
DECIDING = ("scheduling", "codegen")
STOPWATCH = TITAN / "scheduling" / "work.py"
BY_TIME = {"SetTimeLimit", "set_time_limit", "conf_time", "timeout", "monotonic", "perf_counter",
           "process_time", "thread_time", "setrlimit", "alarm", "setitimer"}  # fmt: skip
CLOCKS = ("time", "monotonic", "perf_counter", "process_time", "thread_time")
ABOVE_THE_BOUND = (("scale_bias_silu", "sm_100a"), ("attention_backward_dkv_sm_100a", "sm_100a"))


class Unread(float):
    """Seconds that may be reported, and by which nothing may be decided."""

    def _refused(self, *given: object) -> bool:
        raise AssertionError("a decision reads the clock")

    __lt__ = __le__ = __gt__ = __ge__ = __bool__ = _refused  # type: ignore[assignment]


@pytest.fixture
def leaping(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every look at any clock is an hour later, and no decision may read a stopwatch."""
    now = count(1_000_000, 3600)
    for name in CLOCKS:
        monkeypatch.setattr(time, name, lambda: float(next(now)))
    monkeypatch.setattr(Stopwatch, "seconds", property(lambda self: Unread(next(now))))


def test_nothing_that_schedules_or_emits_reads_a_clock() -> None:
    read = 0
    for folder in DECIDING:
        for path in sorted((TITAN / folder).rglob("*.py")):
            if path == STOPWATCH:
                continue
            read += 1
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Import):
                    assert "time" not in [alias.name for alias in node.names], path
                elif isinstance(node, ast.ImportFrom):
                    assert node.module != "time", path
                elif isinstance(node, ast.Attribute):
                    assert node.attr not in BY_TIME, (path, node.lineno)
                elif isinstance(node, ast.keyword):
                    assert node.arg not in BY_TIME - {"timeout"}, (path, node.lineno)
    assert read > 80


def schedule_of(name: str, target: str, seconds: float = 1.0) -> str:
    tile = load_tile(root("protocols") / "tiles" / f"{name}.yaml", target=target)
    result = scheduled(tile, BuildLimits(schedule_seconds=seconds))[1]
    assert result.schedule is not None and result.schedule.ii > result.bounds.ii
    return repr((result.schedule, result.evidence, result.produced_by, result.notes))


def loop_result(seconds: float) -> str:
    """Of a loop whose search is given up: what it has found by then."""
    loop = common_group(load_loop(root("protocols") / "loops" / "fa3_forward.yaml"))
    result = run(loop, Request(budget_seconds=seconds))
    assert result.schedule is not None
    return repr((result.schedule, result.evidence, result.notes))


def test_a_search_that_is_given_up_finds_the_same_at_any_time(
    request: pytest.FixtureRequest,
) -> None:
    programs = ABOVE_THE_BOUND[: part(len(ABOVE_THE_BOUND))]
    before = [schedule_of(name, target) for name, target in programs]
    given_up = loop_result(0.4)
    request.getfixturevalue("leaping")
    assert [schedule_of(name, target) for name, target in reversed(programs)] == before[::-1]
    assert loop_result(0.4) == given_up


def packed(folder: Path, name: str, target: str, limits: BuildLimits) -> dict[str, bytes]:
    path = root("protocols") / "tiles" / f"{name}.yaml"
    tile = load_tile(path, target=target)
    made = produce(tile, path.read_text(encoding="utf-8"), folder, limits, with_toolchain=False)
    return {item.name: item.read_bytes() for item in sorted(made.folder.iterdir())}


@pytest.mark.parametrize(("name", "target"), [("scale_bias_silu", "sm_100a"), ("gemm", "sm_90a")])
def test_a_package_is_the_same_at_any_time(
    tmp_path: Path, request: pytest.FixtureRequest, name: str, target: str
) -> None:
    limits = BuildLimits(schedule_seconds=1.0)
    before = packed(tmp_path / "one", name, target, limits)
    request.getfixturevalue("leaping")
    assert packed(tmp_path / "other", name, target, limits) == before


def test_no_other_shape_is_taken_for_want_of_time(tmp_path: Path) -> None:
    with pytest.raises(BuildRefused, match="processor time"):
        packed(tmp_path, "gemm_persistent", "sm_90a", BuildLimits(verify_seconds=0.001))
