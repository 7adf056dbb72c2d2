"""`titan gate`: may these packages, schedules and kernels pass?"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from titan.cli.exit_code import ExitCode
from titan.cli.output import write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from titan.package.gate import Judged

CACHE = ".titan/gate.sqlite"


@click.command()
@click.argument("paths", metavar="DIR|FILE...", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="Write one JSON document instead of lines.")
@click.option(
    "-j",
    "--jobs",
    type=click.IntRange(1, 256),
    default=2,
    show_default=True,
    help="Processes that check at the same time.",
)
@click.option(
    "--budget-seconds",
    type=click.FloatRange(0.01, 1e6),
    default=600.0,
    show_default=True,
    help="Processor time that the verification of one protocol may take, a backstop.",
)
@click.option(
    "--allow-bounded",
    is_flag=True,
    help="Let pass what is verified for some numbers where any number is asked for.",
)
@click.option(
    "--fresh", is_flag=True, help="Recompute every verdict; use and keep none of earlier runs."
)
@click.option(
    "--cache",
    type=click.Path(dir_okay=False),
    default=CACHE,
    show_default=True,
    help="Where verdicts are kept for later runs of the same version.",
)
@click.option(
    "--loop", type=click.Path(dir_okay=False, exists=True), help="The loop of schedule files."
)
def gate(
    paths: tuple[str, ...],
    as_json: bool,
    jobs: int,
    budget_seconds: float,
    allow_bounded: bool,
    fresh: bool,
    cache: str,
    loop: str | None,
) -> int:
    """Check packages, schedules and kernels without searching; one line each.

    DIR is a package or a folder with packages below it. FILE is a schedule (its loop beside it), a
    kernel file, the certificate of a package or of a verdict (`.cert`). Each line names the scope
    of the verdict and policies other than the defaults. Exit code 1 when any fails; what is not
    looked into (links, hidden folders) fails.
    """
    from titan.package.gate import GateRules, NothingThere, find
    from titan.package.gate import gate as run

    try:
        items = find(paths)
    except NothingThere as error:
        raise click.UsageError(str(error)) from None
    progress = _progress(sys.stderr.isatty() and not as_json)
    rules = GateRules(budget_seconds, allow_bounded, loop)
    found = run(items, jobs, rules, None if fresh else cache, progress)
    judged = list(found) if as_json else list(_shown(found))
    if as_json:
        write(_document(judged))
    elif len(judged) > 1:
        write(_summary(judged) + "\n")
    failed = not all(item.ok for item in judged)
    return ExitCode.REFUTED if failed else ExitCode.VERIFIED


def _progress(wanted: bool) -> Callable[[int, int], None]:
    """Writes how far it is on the last line of a terminal."""

    def progress(done: int, of: int) -> None:
        if wanted:
            end = "\r\x1b[K" if done == of else ""
            sys.stderr.write(f"\r\x1b[K{done} of {of}{end}")
            sys.stderr.flush()

    return progress


def _shown(found: Iterator[Judged]) -> Iterator[Judged]:
    for item in found:
        write(line(item) + "\n")
        if item.details:
            write("".join(f"    {row}".rstrip() + "\n" for row in item.details.splitlines()))
        sys.stdout.flush()
        yield item


def line(item: Judged) -> str:
    """One line for what was checked: whether it holds, its name and path, and why not."""
    from titan.foundation.diagnostics.wording import printable

    words = [f"{'ok  ' if item.ok else 'FAIL'} {item.name}", printable(item.item.path, 200)]
    if item.why:
        words.append(item.why)
    elif item.verdict:
        words.append(f"verdict {item.verdict}")
    words += item.stated
    if item.scope:
        words.append(f"scope: {item.scope}")
    if item.policies:
        chosen = ", ".join(f"{name} {value}" for name, value in item.policies)
        words.append(f"policies: {chosen}")
    return "  ".join(words)


def _summary(judged: list[Judged]) -> str:
    failed = sum(not item.ok for item in judged)
    parts = [f"{len(judged) - failed} ok", f"{failed} failed"]
    packages = [item.verdict for item in judged if item.verdict]
    for source in ("recomputed", "shared", "kept"):
        parts.append(f"{packages.count(source)} {source}")
    return f"{', '.join(parts[:2])}; verdicts: {', '.join(parts[2:])}"


def _document(judged: list[Judged]) -> str:
    import json

    rows = [
        {
            "kind": item.item.kind,
            "path": item.item.path,
            "name": item.name,
            "ok": item.ok,
            "why": item.why,
            "verdict": item.verdict,
            "stated": list(item.stated),
            "scope": item.scope,
            "policies": dict(item.policies),
            "bounded": item.bounded,
            "details": item.details,
        }
        for item in judged
    ]
    return json.dumps({"ok": all(item.ok for item in judged), "items": rows}, indent=2) + "\n"
