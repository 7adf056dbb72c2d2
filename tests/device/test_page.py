"""Pages are whole, show what the data says, take nothing from elsewhere, and open in a browser."""

from __future__ import annotations

import copy
import re
import shutil
import subprocess
from html.parser import HTMLParser

import pytest

from titan.device.page import page

NAMES = ("chromium", "chromium-browser", "google-chrome")
BROWSER = next(filter(None, map(shutil.which, NAMES)), None)
DEVICE = {"name": "A <GPU>"}
STALLS = [
    {"policy": "measured", "role": "producer", "cycles": 100, "waits": 10, "cycles_each": 10.0},
    {"policy": "storm", "role": "producer", "cycles": 4000, "waits": 10, "cycles_each": 400.0},
]
SAFE_ROW = {
    "package": "gemm", "depth": 2, "variant": "safe", "runs": 8, "trips": [1, 2],
    "states": {"correct": 8}, "seen_to_fail": 0, "first": "",
    "policies": {
        "measured": {"runs": 4, "seen_to_fail": 0},
        "storm": {"runs": 4, "seen_to_fail": 0},
    },
    "stalls": STALLS,
}  # fmt: skip
UNSAFE_ROW = {
    **SAFE_ROW, "variant": "early release", "states": {"correct": 5, "wrong": 3}, "seen_to_fail": 3,
    "first": "C[0, 1] is <2>", "stalls": [],
}  # fmt: skip
STRESS = {
    "kind": "stress", "date": "2026-01-02", "device": DEVICE, "runs": 16, "safe_failures": [],
    "unsafe_variants": 1, "unsafe_seen_to_fail": 1, "rows": [SAFE_ROW, UNSAFE_ROW],
}  # fmt: skip
TIMED = {
    "package": "gemm", "target": "sm_90a", "sizes": {"M": 8192, "K": 64}, "state": "timed",
    "seconds": 0.001, "teraflops": 600.0, "gigabytes": 300.0, "peer": "cuBLAS & co",
    "peer_seconds": 0.002, "ratio": 2.0, "predicted_cycles": 512, "measured_cycles": 1024.0,
    "told": "",
}  # fmt: skip
FAILED = {
    **dict.fromkeys(TIMED), "package": "x", "target": "sm_90a", "sizes": {}, "state": "failed",
    "told": "out of <memory>", "peer": "",
}  # fmt: skip
BENCH = {"kind": "bench", "date": "2026-01-02", "device": DEVICE, "rows": [TIMED, FAILED]}
LITMUS = {
    "kind": "litmus", "date": "2026-01-02", "device": DEVICE, "instances": 30, "findings": ["T<1>"],
    "tests": [
        {
            "test": "T<1>", "file": "t.json", "state": "finding", "instances": 30, "seconds": 1.0,
            "per_second": 30, "batches": 1, "seeds": [1, 1], "words": ["a", "b"],
            "outcomes": [
                {"values": [0, 1], "count": 20, "state": "allowed", "asked": False},
                {"values": [1, None], "count": 10, "state": "forbidden", "asked": True},
            ],
            "allowed_but_unseen": [[1, 1]], "incomplete": 0,
        }
    ],
}  # fmt: skip
ALL = {"stress": STRESS, "bench": BENCH, "litmus": LITMUS}


class Reader(HTMLParser):
    def __init__(self):
        super().__init__()
        self.stack, self.text, self.tags, self.links = [], [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [value for name, value in attrs if name in ("src", "href")]
        if tag != "meta":
            self.stack.append(tag)

    def handle_endtag(self, tag):
        assert self.stack.pop() == tag

    def handle_data(self, data):
        if self.stack and self.stack[-1] != "style":
            self.text.append(data.strip())


def read(html):
    reader = Reader()
    reader.feed(html)
    assert not reader.stack
    return reader


@pytest.mark.parametrize("kind", ALL)
def test_pages_are_whole_and_need_nothing_else(kind):
    html = page(ALL[kind])
    reader = read(html)
    assert "script" not in reader.tags
    assert reader.links == []
    assert "url(" not in html
    assert "prefers-color-scheme: dark" in html
    assert any("A <GPU>" in text for text in reader.text)


def test_the_matrix_tells_variants_apart():
    html = page(STRESS)
    assert re.search(r"<td class='good'[^>]*>0 of 8</td><td class='good'[^>]*>3 of 8</td>", html)
    assert "correct in every run" in html
    assert "C[0, 1] is &lt;2&gt;" in html
    changed = copy.deepcopy(STRESS)
    changed["rows"][0]["seen_to_fail"], changed["rows"][1]["seen_to_fail"] = 1, 0
    changed["safe_failures"] = [
        {"package": "gemm", "depth": 2, "sizes": {"M": 1}, "policy": "storm", "seed": 0,
         "state": "wrong", "told": "<"}
    ]  # fmt: skip
    html = page(changed)
    assert re.search(r"<td class='bad'[^>]*>1 of 8</td><td class='part'[^>]*>0 of 8</td>", html)
    assert "safe kernels failed: 1." in html
    read(html)


def test_stalls_are_bars_against_the_imbalance():
    widths = [float(width) for width in re.findall(r"width:([\d.]+)%", page(STRESS))]
    assert widths == [pytest.approx(60 / 40), pytest.approx(60)]


def test_times_stand_next_to_the_peer_and_cycles_next_to_the_prediction():
    html = page(BENCH)
    widths = [float(width) for width in re.findall(r"width:([\d.]+)%", html)]
    assert widths == [pytest.approx(30), pytest.approx(60), pytest.approx(30), pytest.approx(60)]
    text = read(html).text
    assert "cuBLAS & co" in text
    assert "failed; out of <memory>" in text
    assert "1 of 2 timed on A <GPU>, 2026-01-02" in text


def test_data_of_another_kind_has_no_page():
    with pytest.raises(KeyError):
        page({"kind": "x"})


@pytest.mark.skipif(BROWSER is None, reason="no chromium is installed")
@pytest.mark.parametrize("kind", ALL)
def test_pages_open_in_a_browser(kind, tmp_path):
    path, picture = tmp_path / "page.html", tmp_path / "page.png"
    path.write_text(page(ALL[kind]), encoding="utf-8")
    common = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}"]
    shown = run([*common, "--dump-dom", path.as_uri()])
    assert "A &lt;GPU&gt;" in shown
    assert shown.count("<td") == page(ALL[kind]).count("<td")
    run([*common, f"--screenshot={picture}", path.as_uri()])
    assert picture.stat().st_size > 1000


def run(command):
    return subprocess.run(command, capture_output=True, timeout=120, check=True, text=True).stdout
