"""Several GPUs share the work; one, or none, goes through it in order."""

from __future__ import annotations

import sys
import threading
import time

import pytest

from titan.device.spread import devices, spread
from titan.device.watchdog import run_job

GPU = {"backend": "gpu", "name": "A"}


@pytest.mark.parametrize(
    ("facts", "visible", "places"),
    [
        ({"backend": "cpu", "names": ["x", "x"]}, None, []),
        ({**GPU, "names": ["A"]}, None, []),
        ({**GPU, "names": ["A", "A", "A"]}, None, ["0", "1", "2"]),
        ({**GPU, "names": ["A", "B", "A"]}, None, ["0", "2"]),
        ({**GPU, "names": ["A", "A"]}, "5, 7", ["5", "7"]),
        ({**GPU, "names": ["A", "A"]}, "5", ["0", "1"]),
        (GPU, None, []),
    ],
)
def test_the_devices_to_use(facts, visible, places, monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert devices(facts) == places


def test_one_place_keeps_the_order():
    def run(item, place):
        yield item, place

    assert list(spread([3, 1, 2], run)) == [(3, None), (1, None), (2, None)]
    assert list(spread([3, 1], run, ["4"])) == [(3, "4"), (1, "4")]


def test_several_places_work_at_the_same_time_and_lose_nothing():
    meeting = threading.Barrier(3, timeout=10)

    def run(item, place):
        if item < 3:
            meeting.wait()  # breaks unless three pieces run at once
        yield item, place
        yield item, place

    found = list(spread(range(20), run, ["0", "1", "2"]))
    assert sorted(item for item, _ in found) == sorted([*range(20), *range(20)])
    assert {place for item, place in found if item < 3} == {"0", "1", "2"}


def test_an_error_ends_all():
    def run(item, place):
        if item == 2:
            raise ValueError("two")
        yield item

    with pytest.raises(ValueError, match="two"):
        list(spread(range(5), run, ["0", "1"]))


def test_a_consumer_that_leaves_stops_the_work():
    seen = []

    def run(item, place):
        seen.append(item)
        time.sleep(0.02)
        yield item

    for _ in spread(range(1000), run, ["0", "1"]):
        break
    time.sleep(0.2)
    assert len(seen) < 10


def test_a_child_sees_one_device():
    code = "import json, os; print(json.dumps({'seen': os.environ['CUDA_VISIBLE_DEVICES']}))"
    records = list(run_job({}, 10.0, (sys.executable, "-c", code), device="3"))
    assert records[0] == {"seen": "3"}
