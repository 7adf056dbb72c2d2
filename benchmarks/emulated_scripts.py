"""What `titan run` says of a script: its launches, and whether the script was content."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from benchmarks.real_code import RESULTS, Row, store, table_text, write

SECONDS_MAX = 900
PAGE = RESULTS.parents[1] / "docs/reference/emulated.md"
_SUMMARY = re.compile(r"^titan: \d+ launche?s? computed(?:: (.*))?$", re.MULTILINE)
_CODES = re.compile(r"^error\[(TTN\d+)\]", re.MULTILINE)
_REASON = re.compile(r"is undecided with CTA \([^)]*\): ([^;\n]*)")


def outcome(
    device: str, script: Path, arguments: list[str], folder: Path
) -> tuple[str, str, str, str]:
    """Launches by verdict; whether the script ended well; codes or reasons; seconds on the wall."""
    command = [sys.executable, "-m", "titan", "run", "--device", device, str(script), *arguments]
    before = time.perf_counter()
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=SECONDS_MAX, check=False
    )
    seconds = time.perf_counter() - before
    found = _SUMMARY.search(done.stderr)
    launches = (found.group(1) or "none") if found else "none"
    codes = ", ".join(f"`{code}`" for code in dict.fromkeys(_CODES.findall(done.stderr)))
    reasons = ", ".join(dict.fromkeys(_REASON.findall(done.stderr)))
    passed = done.returncode in (0, 3) and not codes
    remark = codes or reasons or ("" if passed else f"exit code {done.returncode}")
    return launches, "yes" if passed else "-", remark, f"{seconds:.0f}"


def options_of_table() -> argparse.Namespace:
    """The folder of the scripts, the text of those that are asked for, whether to write."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--write", action="store_true")
    return parser.parse_args()


def show_table(rows: Iterable[Row], head: Row, stored: str, part: str, written: bool) -> None:
    """Print each row when it is there; if `written`, keep all as `stored` and in the page."""
    found: list[Row] = []
    for row in rows:
        found.append(row)
        print(" | ".join(row), flush=True)
    if written:
        store(stored, head, found)
        write(part, table_text(head, found), PAGE)
