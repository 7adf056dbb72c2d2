"""What `titan run` says of a script: its launches, and whether the script was content."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

SECONDS_MAX = 900
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
