"""What TITAN says of files of TTGIR, for any number of trips.

    python -m benchmarks.ttgir_verdicts FOLDER [FOLDER ...]

Of files with one name and one target below the folders the first is taken, and left out where
nothing in it touches shared or tensor memory. One row of Markdown for each target; files that are
not verified for any number are listed.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from titan.foundation.source.span import Source
from titan.frontends.ttgir.verify import verify_ttgir
from titan.verify.model import VerifyOptions

MEMORY = re.compile(r"ttg\.local_|ttng\.|async_copy")
TARGET = re.compile(r'ttg\.target = "([^"]*)"')
VERDICTS = ("verified", "refuted", "undecided", "refused")
STATES_MAX = 60_000


def kernels(folders: list[Path]) -> Iterator[tuple[str, Path, str]]:
    """Target, path and text of each file that is taken."""
    seen: set[tuple[str, str]] = set()
    for path in sorted(path for folder in folders for path in folder.rglob("*.ttgir")):
        text = path.read_text(encoding="utf-8", errors="replace")
        found = TARGET.search(text)
        target = found[1] if found else "none"
        if (path.name, target) not in seen and MEMORY.search(text):
            seen.add((path.name, target))
            yield target, path, text


def main() -> None:
    """Verify the files and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folders", nargs="+", type=Path)
    options = VerifyOptions(save_traces=None, require="any", states_max=STATES_MAX)
    counts: dict[str, Counter[str]] = {}
    for target, path, text in kernels(parser.parse_args().folders):
        for finding in verify_ttgir(Source(str(path), text), options):
            verdict = finding.verdict.value
            counts.setdefault(target, Counter())[verdict] += 1
            if verdict != "verified":
                print(f"{verdict}: {path}", file=sys.stderr)
    print("| target | " + " | ".join(VERDICTS) + " |")
    print("| --- " * (len(VERDICTS) + 1) + "|")
    for target, found in sorted(counts.items()):
        print(f"| {target} | " + " | ".join(str(found[one]) for one in VERDICTS) + " |")


if __name__ == "__main__":
    main()
