"""Pages are whole, show what the data says, take nothing from elsewhere, and open in a browser."""

from __future__ import annotations

import copy
import re
import shutil
import subprocess
from html.parser import HTMLParser

import pytest

from tests.sampling import sampled
from titan.device import plots
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
    "message": "",
}  # fmt: skip
FAILED = {
    **dict.fromkeys(TIMED), "package": "x", "target": "sm_90a", "sizes": {}, "state": "failed",
    "message": "out of <memory>", "peer": "",
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
POINTS = [
    {"amount": 0, "delay_cycles": None, "producer_cycles": 10.0},
    {"amount": 8, "delay_cycles": 256.0, "producer_cycles": 90.0},
    {"amount": 64, "delay_cycles": 2048.0, "producer_cycles": 700.0},
]
DELAYED = copy.deepcopy(STRESS)
DELAYED["rows"][0]["imbalance"] = [{"knob": "bank-<conflicts>", "points": POINTS}]
DELAYED["skipped"] = [
    {"package": "gemm", "depth": 2, "variant": "early release", "runs": 7, "policies": ["<storm>"]}
]
PROBES = {
    "kind": "probes", "date": "2026-01-02", "device": DEVICE,
    "probes": [
        {"probe": "parity", "facts": ["M30"], "asks": "a < b?", "state": "answered",
         "answer": "yes & no", "means": "nothing <new>", "counters": {"seen": 12345},
         "message": ""},
        {"probe": "elect", "facts": ["R10"], "asks": "who?", "state": "hung", "answer": "",
         "means": "", "counters": {}, "message": "at <x>"},
    ],
}  # fmt: skip
FIGURES = {
    "registers": 168, "spilled_bytes": 0, "shared_bytes": 98_384, "occupancy": 0.1875,
    "fences": 2, "barriers": 9, "steady_cycles": 640.0, "tail_share": 0.1, "wave_share": 0.02,
}  # fmt: skip
NAMED = {"axis": "product", "setting": "as built", "about": "", "against_product": 1.0}
SLOWER = {"axis": "depth", "setting": "2", "about": "rings of 2", "against_product": 0.5}
UNBUILT = {
    **FAILED, "axis": "fences", "setting": "<none>", "about": "", "against_product": None,
    "state": "not built", "message": "no shape <fits>",
}  # fmt: skip
ABLATIONS = {
    "kind": "ablations", "date": "2026-01-02", "device": DEVICE,
    "rows": [
        {**TIMED, **FIGURES, **NAMED}, {**TIMED, **FIGURES, **SLOWER, "seconds": 0.002}, UNBUILT,
    ],
}  # fmt: skip
UNBUILT["package"] = "gemm"
MACHINE = {
    "machine": "sm_90a", "error_before": 0.3, "error_after": 0.02, "remarks": ["<not> told apart"],
    "overhead_cycles": 30.0,
    "terms": [
        {"term": "TC", "state": "fitted", "scale": 1.25, "at_most": None, "measurements": 4},
        {"term": "TMA", "state": "bounded", "scale": None, "at_most": 2.5, "measurements": 0},
    ],
    "rates": {"matrix.per_cycle.bf16": {"was": 2048.0, "fits": 1638.4}},
    "residuals": [
        {"kernel": "gemm, depth <2>", "measured": 640.0, "before": 512.0, "after": 630.0,
         "binding": "TC", "relative": -0.0156},
    ],
}  # fmt: skip
SUITE = {
    "kind": "device", "date": "2026-01-02", "device": DEVICE, "stress": DELAYED, "bench": BENCH,
    "ablations": ABLATIONS, "machines": [MACHINE], "probes": PROBES, "cycles": {"rows": []},
    "left_out": {"litmus": ["<MP>"], "bench": []},
    "shares": {"litmus": {"given_seconds": 197.6, "taken_seconds": 198.1}},
}  # fmt: skip
ALL = {
    "stress": STRESS, "bench": BENCH, "litmus": LITMUS, "delayed": DELAYED, "probes": PROBES,
    "ablations": ABLATIONS, "suite": SUITE,
}  # fmt: skip


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
         "state": "wrong", "message": "<"}
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


def test_the_stall_of_the_producer_is_plotted_against_the_delay():
    html = page(DELAYED)
    (path,) = re.findall(r"<polyline points='([^']*)'", html)
    points = [tuple(map(float, pair.split(","))) for pair in path.split()]
    assert len(points) == 3
    assert [x for x, _ in points] == sorted(x for x, _ in points)
    heights = [y for _, y in points]
    assert heights == sorted(heights, reverse=True)  # a longer stall stands higher
    tops = plots.HEIGHT - plots.BOTTOM - plots.TOP
    assert heights[0] - heights[2] == pytest.approx(tops * 690 / 700, abs=0.2)
    text = read(html).text
    assert "bank-<conflicts>" in text
    assert "bank-<conflicts>: 90 at 8" in text
    assert any("7 runs under <storm>" in item for item in text)
    assert "<polyline" not in page(STRESS)


def test_a_plot_without_points_is_none():
    assert plots.lines({}, "x", "y", "t") == ""
    assert plots.lines({"a": [(0.0, 0.0)]}, "x", "y", "t") == ""


def test_answers_of_probes_and_those_without():
    text = read(page(PROBES)).text
    assert {"yes & no", "nothing <new>", "12,345", "a < b?"} <= set(text)
    assert "hung at <x>" in text
    assert any("1 of 2 answered" in item for item in text)


def test_variants_stand_beside_the_product():
    html = page(ABLATIONS)
    text = read(html).text
    assert "1,000.0 us (1.00)" in text
    assert "2,000.0 us (0.50)" in text
    assert "not built; no shape <fits>" in text
    assert {"168", "98,384", "19%", "2", "9", "640"} <= set(text)
    assert re.search(r"<td class='bad'>2,000.0 us", html)


def test_the_suite_shows_all_parts_and_what_was_not_reached():
    text = read(page(SUITE)).text
    for name in ("Not reached", "Stress", "Speed", "Variants", "Machine description", "Probes"):
        assert name in text
    assert "litmus: <MP>" in text
    assert "1638.4" in text
    assert "gemm, depth <2>" in text
    assert any("30.0% as described" in item for item in text)


def test_data_of_another_kind_has_no_page():
    with pytest.raises(KeyError):
        page({"kind": "x"})


@pytest.mark.skipif(BROWSER is None, reason="no chromium is installed")
@pytest.mark.parametrize("kind", sampled(ALL, every=3))
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
