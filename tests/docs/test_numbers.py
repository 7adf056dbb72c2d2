"""Numbers that the README states are those of the pages that are made by programs."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_ROW = re.compile(r"^\| ([^|]+) \| [^|]* \| [^|]* \| [^|]* \| (\w+) \|", re.M)


def kernels() -> tuple[dict[str, str], set[str]]:
    """The verdict on each file as it is; and those files that have a row with a policy."""
    page = (ROOT / "docs" / "reference" / "real_code.md").read_text(encoding="utf-8")
    table = page.split("<!-- verdicts begin -->")[1].split("<!-- verdicts end -->")[0]
    rows = [(name, verdict) for name, verdict in _ROW.findall(table) if verdict != "verdict"]
    varied = {name.split(",")[0] for name, _ in rows if "," in name}
    return {n: v for n, v in rows if "," not in n and " without " not in n}, varied


def test_real_kernels() -> None:
    found, varied = kernels()
    counts = Counter(found.values())
    refuted = {name for name, verdict in found.items() if verdict == "refuted"}
    planted = {name for name in refuted if "seeded" in name}
    left_out = {name for name in varied if found.get(name) == "verified"}
    assert set(counts) == {"verified", "refuted"} and len(found) > 60
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    for told in (
        f"Of {len(found)} kernels of Triton",
        f"{counts['verified']} are verified",
        f"{WORDS[len(planted)]} with a planted fault are refuted",
        f"{WORDS[len(left_out)].capitalize()} leave out a fence or wait that PTX asks for",
        f"{WORDS[len(refuted - planted)]} are refuted over faults that ship",
    ):
        assert told in readme, told


def test_lines_of_kernel_files() -> None:
    files = sorted((ROOT / "protocols").glob("*.yaml"))
    lines = [len(path.read_text(encoding="utf-8").splitlines()) for path in files]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    told = re.search(r"(\d+) to (\d+) lines of\s+YAML", readme)
    assert told is not None
    assert int(told[1]) == min(lines) // 10 * 10 and int(told[2]) == -(-max(lines) // 10) * 10
