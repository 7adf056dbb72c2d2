"""`python -m titan.device`: the runner on a machine that has nothing but Python, NumPy and CuPy.

    python -m titan.device facts
    python -m titan.device litmus FOLDER [--seconds S] [--result FILE] [--page FILE] [--log FILE]

    python -m titan.device probes FOLDER [--result FILE]
    python -m titan.device suite FOLDER [--quick] [--root DIR]

FOLDER holds rendered tests (`titan litmus render`), probes (litmus/probes), or both with packages.
Exit codes: 0 as the model says, 1 a finding, 2 bad usage or no device.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from titan.device import litmus
from titan.device.page import page
from titan.device.spread import devices


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m titan.device")
    commands = parser.add_subparsers(dest="command", required=True)
    facts = commands.add_parser("facts", help="the device and what results depend on")
    run = commands.add_parser("litmus", help="run rendered litmus tests")
    run.add_argument("folder", type=Path)
    run.add_argument("--seconds", type=float, default=1.0, help="for each test")
    run.add_argument("--seed", type=int, default=1)
    run.add_argument("--scale", type=float, default=1.0, help="of the instances of a batch")
    whole = commands.add_parser("suite", help="litmus, stress and speed within a budget")
    whole.add_argument("folder", type=Path)
    whole.add_argument("--quick", action="store_true", help="under 2 minutes, not under 9")
    whole.add_argument("--root", type=Path, default=Path(), help="where results go")
    disputed = commands.add_parser("probes", help="facts on which sources differ")
    disputed.add_argument("folder", type=Path)
    disputed.add_argument("--result", type=Path, help="write JSON to this file")
    for command in (facts, run, whole, disputed):
        command.add_argument("--backend", choices=["gpu", "cpu"], default="gpu")
    for name, about in (("result", "JSON"), ("page", "HTML"), ("log", "JSON lines")):
        run.add_argument(f"--{name}", type=Path, help=f"write {about} to this file")
    options = parser.parse_args(arguments)
    try:
        found = litmus.machine(options.backend)
    except RuntimeError as error:
        print(f"no device: {error}", file=sys.stderr)
        return 2
    if options.command == "facts":
        print(json.dumps(found, indent=2))
        return 0
    if options.command == "probes":
        return run_probes(options.folder, found, options.result)
    if options.command == "suite":
        return run_suite(options.folder, found, options.quick, options.root)
    return run_folder(
        options.folder, found, options.seconds, options.seed, options.scale,
        options.result, options.page, options.log,
    )  # fmt: skip


def run_folder(
    folder: Path, facts: dict[str, Any], seconds: float, seed: int, scale: float,
    result: Path | None, html: Path | None, log: Path | None,
) -> int:  # fmt: skip
    """Run all rendered tests of a folder, tell each in a line, write what was asked for."""
    paths = litmus.manifests(folder)
    if not paths:
        print(f"no rendered tests in {folder}", file=sys.stderr)
        return 2

    def tell(number: int, row: litmus.Row) -> None:
        print(line(number + 1, len(paths), row), flush=True)

    places = devices(facts)
    rows = list(litmus.run_tests(paths, seconds, seed, scale, log, tell, places))
    data = litmus.document(facts, rows)
    for path, text in ((result, json.dumps(data, indent=1) + "\n"), (html, page(data))):
        if path is not None:
            write_whole(path, text)
    print(summary(data))
    return 1 if data["findings"] else 0


def run_probes(folder: Path, facts: dict[str, Any], result: Path | None) -> int:
    """All probes of a folder; what each answered."""
    from titan.device import probes

    paths = probes.manifests(folder)
    if not paths:
        print(f"no probes in {folder}", file=sys.stderr)
        return 2
    answers = list(probes.run(paths, lambda answer: print(probes.line(answer), flush=True)))
    data = probes.document(facts, answers)
    if result is not None:
        write_whole(result, json.dumps(data, indent=1) + "\n")
    return 1 if any(answer.state != "answered" for answer in answers) else 0


def run_suite(folder: Path, facts: dict[str, Any], quick: bool, root: Path) -> int:
    """The device suite; its results are files below `root`."""
    from titan.device import suite

    seconds = suite.QUICK_SECONDS if quick else suite.FULL_SECONDS
    found = suite.run(folder, facts, seconds, folder / "log.jsonl")
    for path in suite.save(found, root, write_whole):
        print(path)
    for part, names in found.left.items():
        if names:
            print(f"{part}: the time did not reach {len(names)} of them")
    return 1 if found.bad else 0


def line(number: int, total: int, row: litmus.Row) -> str:
    """`3/160 MP+weak: seen, 65,536 instances, 400,000 a second`."""
    text = f"{number}/{total} {row.test}: {row.state}, {row.instances:,} instances"
    if row.seconds:
        text += f", {row.rate:,.0f} a second"
    if row.verdict is not None and row.verdict.forbidden:
        values = ", ".join(
            f"{name}={value}"
            for name, value in zip(row.verdict.names, row.verdict.forbidden[0].values, strict=True)
        )
        text += f"; forbidden: {values}, {row.verdict.forbidden[0].count} times"
    return f"{text}; {row.error}" if row.error else text


def summary(data: dict[str, Any]) -> str:
    states: dict[str, int] = {}
    for test in data["tests"]:
        states[test["state"]] = states.get(test["state"], 0) + 1
    counts = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    return f"{len(data['tests'])} tests, {data['instances']:,} instances: {counts}"


def write_whole(path: Path, text: str) -> None:
    """Write a file in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.{os.getpid()}")
    new.write_text(text, encoding="utf-8")
    os.replace(new, path)


if __name__ == "__main__":
    sys.exit(main())
