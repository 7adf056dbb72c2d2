"""Scores as text, as a Markdown table, and as JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable

from titan.foundation.verdict import Verdict
from titan.verify.mutate.judge import Fate, MutantJudgement, Score

COLUMNS = (Fate.KILLED, Fate.EQUIVALENT, Fate.OVER_SYNCHRONISED, Fate.SURVIVING, Fate.UNDECIDED)


def to_text(score: Score, everything: bool = False) -> str:
    """A summary of one program, and every mutant that was not killed with its argument."""
    lines = [f"{score.name}: {_summary(score)}"]
    lines += [
        f"  {line}"
        for judgement in score.judgements
        if everything or judgement.fate is not Fate.KILLED
        for line in _lines(judgement)
    ]
    return "\n".join(lines) + "\n"


def totals(scores: Iterable[Score]) -> str:
    """The counts of all programs together, in a line."""
    total = sum((score.counts() for score in scores), Counter[Fate]())
    return f"all: {_counted(total)}\n"


def _summary(score: Score) -> str:
    if score.baseline.verdict is not Verdict.VERIFIED:
        why = score.baseline.rule or score.baseline.scope or "no reason given"
        return f"not mutated, it is {score.baseline.verdict} itself ({why})"
    return _counted(score.counts())


def _counted(counts: Counter[Fate]) -> str:
    counted_text = ", ".join(f"{counts[fate]} {fate}" for fate in COLUMNS)
    return f"{counts.total()} mutants: {counted_text}"


def _lines(judgement: MutantJudgement) -> list[str]:
    mutant = judgement.mutant
    line = line_of(judgement)
    place = mutant.subject + (f", line {line}" if line is not None else "")
    head = f"{judgement.fate}: {mutant.what}: {mutant.where} ({place})"
    return [head, f"    {judgement.argument}"]


def line_of(judgement: MutantJudgement) -> int | None:
    """The line of the operation in the user's file, where that is known."""
    site = judgement.mutant.site
    if site is None:
        return None
    return site.operation.span.start_line if site.operation.span else None


def to_markdown(scores: Iterable[Score]) -> str:
    """One row a program, and the rules that killed its mutants."""
    lines = [
        "| kernel | mutants | killed | equivalent | over-synchronised | surviving | undecided |"
        " killed by | sizes |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- | --- |",
    ]
    total: Counter[Fate] = Counter()
    for score in scores:
        counts = score.counts()
        total += counts
        rules = Counter(judgement.rule for judgement in score.judgements if judgement.rule)
        counted_text = ", ".join(f"{rule} ({count})" for rule, count in rules.most_common())
        cells = [f"`{score.name}`", str(counts.total()), *(str(counts[fate]) for fate in COLUMNS)]
        scope = score.baseline.scope.removeprefix("all interleavings, ").split(" (")[0]
        lines.append(f"| {' | '.join(cells)} | {counted_text or _summary(score)} | {scope} |")
    cells = ["all", str(total.total()), *(str(total[fate]) for fate in COLUMNS)]
    return "\n".join([*lines, f"| {' | '.join(cells)} | | |"]) + "\n"


def to_json(scores: Iterable[Score]) -> str:
    """Every judgement, with the verdict on the program itself."""
    rows = [
        {
            "kernel": score.name,
            "verdict": str(score.baseline.verdict),
            "scope": score.baseline.scope,
            "engines": list(score.baseline.engines),
            "counts": {str(fate): score.counts()[fate] for fate in COLUMNS},
            "mutants": [
                {
                    "role": judgement.mutant.subject,
                    "operation": judgement.mutant.where,
                    "line": line_of(judgement),
                    "mutation": judgement.mutant.what,
                    "change": str(judgement.mutant.change),
                    "fate": str(judgement.fate),
                    "rule": judgement.rule or None,
                    "argument": judgement.argument,
                }
                for judgement in score.judgements
            ],
        }
        for score in scores
    ]
    return json.dumps(rows, indent=2) + "\n"
