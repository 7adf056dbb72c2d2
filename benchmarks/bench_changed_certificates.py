"""Certificates with one line changed: of the kernels of the library, and of packages.

    python -m benchmarks.bench_changed_certificates [NAME...] [--most N] [--write]

A NAME is a kernel of `protocols/`, or a file or package folder with a certificate. Each line is
changed in every way (`mutations` of tests/proof/test_certificates.py); of more than N changes of
one certificate a sample is tried, drawn with a fixed seed. A changed line is held against the proof
at its place (tests/proof/test_all_mutations.py); what is derived there is checked as a whole.
`--write` puts counts and date into benchmarks/results/changed_certificates.json, where what it
holds of other certificates stays, and all of it into docs/reference/proof_checks.md.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from random import Random

from benchmarks.pages import write_between
from tests.proof.kernels import certificate
from tests.proof.test_all_mutations import KERNELS, Trial, choice_of, passes
from tests.proof.test_certificates import changed, mutations

RESULTS = Path(__file__).resolve().parent / "results" / "changed_certificates.json"
PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "proof_checks.md"
BEGIN, END = "<!-- changes -->\n", "<!-- end of changes -->"
SEED = 1


def tried(text: str, most: int) -> dict[str, int]:
    """Changes that there are, that were tried, and those by which a certificate passes."""
    lines = text[:-1].split("\n")
    trial = Trial(lines)
    places = [(n, m) for n in range(trial.first, len(lines) - 1) for m in mutations(lines[n])]
    chosen = set(range(len(places)))
    if len(places) > most:
        chosen = set(Random(SEED).sample(range(len(places)), most))
    found: list[tuple[int, str | None]] = []
    derived = trial.first
    for number, (place, mutation) in enumerate(places):
        while derived < place:
            assert trial.expanded(derived - trial.first, lines[derived]) == lines[derived]
            derived += 1
        if number not in chosen:
            continue
        line, other = lines[place], lines[place + 1] if mutation is None else mutation
        same = (
            choice_of(other) == choice_of(line) and other != line
        )  # derived is the line as it was
        if other == line or (not same and trial.derives(place - trial.first, other)):
            found.append((place, mutation))
    accepted = [item for item in found if passes(changed(lines, *item))]
    for place, mutation in accepted:
        print(f"ACCEPTED line {place + 1}: {lines[place]} -> {mutation}")
    return {"changes": len(places), "tried": len(chosen), "accepted": len(accepted)}


def text_of(name: str) -> tuple[str, str]:
    """What it is called, and the certificate."""
    if name in KERNELS:
        return name, certificate(name)
    path = Path(name)
    file = path / "verdict.cert" if path.is_dir() else path
    return f"{path.stem} (package)", file.read_text("utf-8")


def table(rows: Mapping[str, Mapping[str, object]]) -> str:
    """A row a certificate."""
    lines = ["| certificate | changes of lines | tried | accepted | date |\n"]
    lines += ["| --- | ---: | ---: | ---: | --- |\n"]
    for name, row in rows.items():
        counts = " | ".join(f"{row[key]:,}" for key in ("changes", "tried", "accepted"))
        lines.append(f"| `{name}` | {counts} | {row['date']} |\n")
    return "".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", default=KERNELS)
    parser.add_argument("--most", type=int, default=3000)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    rows = json.loads(RESULTS.read_text("utf-8"))["certificates"] if RESULTS.exists() else {}
    for given in arguments.names:
        name, text = text_of(given)
        rows[name] = {**tried(text, arguments.most), "date": datetime.now(UTC).date().isoformat()}
        print(f"{name}: {rows[name]}", flush=True)
        if arguments.write:
            ordered = dict(sorted(rows.items()))
            data = {"seed": SEED, "certificates": ordered}
            RESULTS.write_text(json.dumps(data, indent=2) + "\n", "utf-8")
            write_between(PAGE, BEGIN, END, table(ordered))


if __name__ == "__main__":
    main()
