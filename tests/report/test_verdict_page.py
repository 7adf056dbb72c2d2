"""Pages of verdicts: whole, nothing from elsewhere, and they work in a real browser."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.language.kernel.examples import ROOT
from titan.cli.main import run as titan
from titan.report.verdict_page import fragment, page
from titan.verify.model import VerifyOptions
from titan.verify.pipeline import verify_file

NAMES = ("chromium", "chromium-browser", "google-chrome")
BROWSER = next(filter(None, map(shutil.which, NAMES)), None)
EXAMPLES = ROOT / "examples"
VOID = ("meta", "input", "br")


class Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.stack: list[str] = []
        self.links: list[str | None] = []
        self.lanes: list[str] = []
        self.rows: list[dict[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [value for name, value in attrs if name in ("src", "href")]
        if tag == "tr" and "data-step" in dict(attrs):
            self.rows.append(dict(attrs))
        if tag not in VOID:
            self.stack.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag


def read(html: str) -> Reader:
    reader = Reader()
    reader.feed(html)
    assert not reader.stack
    return reader


def made(name: str, folder: Path = EXAMPLES) -> str:
    return page(verify_file(str(folder / f"{name}.yaml"), VerifyOptions(save_traces=None)))


@pytest.fixture(scope="module")
def refuted() -> str:
    return made("early_release")


@pytest.fixture(scope="module")
def verified() -> str:
    return made("ring")


def test_pages_are_whole_and_need_nothing_else(refuted: str, verified: str):
    for html in (refuted, verified):
        reader = read(html)
        assert reader.links == []
        assert "url(" not in html and "import(" not in html and "fetch(" not in html
        assert "default-src 'none'" in html
        assert "prefers-color-scheme: dark" in html


def test_a_counterexample_has_all_its_steps(refuted: str):
    rows = read(refuted).rows
    assert [row["data-step"] for row in rows] == [str(n) for n in range(1, len(rows) + 1)]
    last = rows[-1]
    assert "fault-step" in str(last["class"])
    assert "is overwritten while" in str(last["data-end"])
    kept = [row for row in rows if "matters" in str(row["class"])]
    assert 0 < len(kept) < len(rows)
    assert "TTN202 overwrite-while-in-flight" in refuted


def test_a_verified_kernel_says_what_is_covered(verified: str):
    assert "all interleavings; any tiles, 0 included" in verified
    assert re.search(r"<td>explorer</td><td>verified</td><td>[\d,]+</td>", verified)
    assert "Proxy fences" in verified
    assert "to look at" in verified and "fault-step" not in str(read(verified).rows)


FENCED = """\
titan: 1
kernel: fenced
target: sm_90a
buffers: {A: {bytes: 1024}}
queues: {out: bulk}
roles: {w: {warps: 1}}
program:
  w:
    - store: A = 1
    - fence: async
      spaces: [shared]
    - bulk_store: A = 1
      queue: out
    - commit: out
    - drain: out
"""


def test_fences_have_their_reasons(tmp_path: Path):
    (tmp_path / "fenced.yaml").write_text(FENCED, encoding="utf-8")
    html = made("fenced", tmp_path)
    assert re.search(r"<code>fence: async[^<]*</code></td><td>needed</td><td><div>", html)


def test_text_of_the_kernel_is_escaped(tmp_path: Path):
    text = (EXAMPLES / "early_release.yaml").read_text(encoding="utf-8")
    path = tmp_path / "</script><b>.yaml"
    path.parent.mkdir(exist_ok=True, parents=True)
    path = tmp_path / "a<b>&'c.yaml"
    path.write_text(f"# </script><img src=x onerror=alert(1)>\n{text}", encoding="utf-8")
    html = page(verify_file(str(path), VerifyOptions(save_traces=None)))
    assert read(html).links == []
    assert "<img" not in html and "a<b>" not in html


def test_notebooks_show_a_fragment():
    finding = verify_file(str(EXAMPLES / "early_release.yaml"), VerifyOptions(save_traces=None))[0]
    html = fragment(finding)
    read(html)
    assert "<script" not in html and "REFUTED" in html and "TTN202" in html


def test_the_command_writes_pages_and_traces(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    kernel = str(EXAMPLES / "early_release.yaml")
    assert titan(["verify", kernel, "--html", "page.html", "--format", "concise"]) == 1
    assert "REFUTED early_release" in Path("page.html").read_text(encoding="utf-8")
    assert "refuted early_release" in capsys.readouterr().out
    assert titan(["verify", kernel, "--format", "html", "--output", "again.html"]) == 1
    assert Path("again.html").read_bytes() == Path("page.html").read_bytes()
    assert titan(["verify", kernel, "--format", "perfetto", "--output", "trace.json"]) == 1
    assert json.loads(Path("trace.json").read_text(encoding="utf-8"))["traceEvents"]
    assert titan(["verify", kernel, "--html", str(tmp_path / "no" / "page.html")]) == 2
    assert "--html" in capsys.readouterr().err


# --------------------------------------------------------------------------------- in a browser

PROBE = """
<script>
const told = {};
const rows = () => [...document.querySelectorAll('tr[data-step]')].filter(r => r.offsetHeight > 0);
const now = () => document.querySelector('tr.now').dataset.step;
const press = key => document.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true}));
const rgb = text => text.match(/[0-9.]+/g).slice(0, 3).map(Number);
const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
  .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
  .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
const contrast = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
const back = element => {
  for (; element; element = element.parentElement) {
    const colour = getComputedStyle(element).backgroundColor;
    if (!/, 0\\)$|transparent/.test(colour)) return rgb(colour);
  }
  return [255, 255, 255];
};
told.start = now();
told.matter = rows().length;
told.arrowsOfThose = document.querySelectorAll('svg.arrows path').length;
press('m');
told.all = rows().length;
told.arrows = document.querySelectorAll('svg.arrows path').length;
press('Home'); told.home = now();
press('ArrowRight'); press('j'); told.two = now();
press('k'); told.back = now();
told.line = document.querySelector('.source .now').textContent.trim();
press('End'); told.end = now();
told.text = document.querySelector('.shown').textContent;
told.near = document.querySelectorAll('svg.arrows path.near').length;
document.querySelector('button.first').click(); told.first = now();
told.dark = matchMedia('(prefers-color-scheme: dark)').matches;
told.contrast = Math.min(...[...document.querySelectorAll('h1, h2, h3, td, th, li, span, button')]
  .filter(e => e.textContent.trim() && e.offsetHeight)
  .map(e => contrast(light(rgb(getComputedStyle(e).color)), light(back(e)))));
told.requests = performance.getEntriesByType('resource').length;
const made = document.createElement('output');
made.id = 'probe';
made.textContent = JSON.stringify(told);
document.body.append(made);
</script></body>"""


def probed(html: str, folder: Path, *flags: str) -> dict[str, object]:
    assert BROWSER is not None
    path = folder / "page.html"
    path.write_text(html.replace("</body>", PROBE), encoding="utf-8")
    common = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'p'}"]
    command = [BROWSER, *common, *flags, "--window-size=1500,1000", "--dump-dom", path.as_uri()]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    found = re.search(r'<output id="probe">(.*?)</output>', shown)
    assert found is not None, shown[-2000:]
    return json.loads(found.group(1))


@pytest.mark.skipif(BROWSER is None, reason="no chromium is installed")
@pytest.mark.parametrize(
    ("flags", "dark"), [((), False), (("--blink-settings=preferredColorScheme=0",), True)]
)
def test_a_counterexample_in_a_browser(
    refuted: str, tmp_path: Path, flags: tuple[str, ...], dark: bool
):
    told = probed(refuted, tmp_path, *flags)
    rows = read(refuted).rows
    steps, kept = len(rows), sum("matters" in str(row["class"]) for row in rows)
    arrows = json.loads(re.findall(r"class='arrows'>(\[.*?\])</script>", refuted)[0])
    assert told["start"] == str(steps)  # it opens at the fault
    assert (told["matter"], told["all"]) == (kept, steps)
    assert told["arrows"] == len(arrows) > told["arrowsOfThose"]
    assert (told["home"], told["two"], told["back"], told["first"]) == ("1", "3", "2", "1")
    assert told["line"] == "20         - produce: operands[t]"
    assert told["end"] == str(steps)
    assert "A[0] is overwritten while an operation in flight still reads it" in told["text"]
    assert told["dark"] is dark
    assert told["contrast"] >= 4.5  # WCAG 2, level AA
    assert told["requests"] == 0
