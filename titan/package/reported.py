"""Judgements of `titan gate` as lines, as plain data, and as checks of reports for CI."""

from __future__ import annotations

import json
from collections.abc import Sequence

from titan.foundation.diagnostics.render import json as json_render
from titan.foundation.diagnostics.wording import printable
from titan.package.failures import MEANING, GateFailure, verdict_of
from titan.package.gate import Judged
from titan.report.checks import Check

FORMAT_VERSION = 1
PATH_MAX = 200


def line(item: Judged) -> str:
    """One line for what was checked: whether it holds, its name and path, and why not."""
    words = [f"{'ok  ' if item.ok else 'FAIL'} {item.name}", printable(item.item.path, PATH_MAX)]
    if item.why:
        words.append(_worded(item))
    elif item.verdict:
        words.append(f"verdict {item.verdict}")
    words += item.stated
    if item.scope:
        words.append(f"scope: {item.scope}")
    if item.policies:
        chosen = ", ".join(f"{name} {value}" for name, value in item.policies)
        words.append(f"policies: {chosen}")
    return "  ".join(words)


def details(item: Judged) -> str:
    """The diagnostics of an item, indented below its line."""
    return "".join(f"    {row}".rstrip() + "\n" for row in item.details.splitlines())


def summary(judged: Sequence[Judged]) -> str:
    """How many pass, where verdicts come from, and what each kind of failure means."""
    failed = sum(not item.ok for item in judged)
    packages = [item.verdict for item in judged if item.verdict]
    sources = [f"{packages.count(name)} {name}" for name in ("recomputed", "shared", "kept")]
    head = f"{len(judged) - failed} ok, {failed} failed; verdicts: {', '.join(sources)}"
    return head + "\n" + meanings(judged)


def meanings(judged: Sequence[Judged]) -> str:
    """A line for each kind of failure that is there: what it means, and what to do."""
    kinds = {item.failure for item in judged} - {GateFailure.NONE}
    return "".join(f"  {kind}: {text}\n" for kind, text in MEANING.items() if kind in kinds)


def check_of(item: Judged) -> Check:
    """The record that reports for CI systems are made of."""
    text = line(item).split("  ", 2)[-1] if item.ok else _worded(item)
    verdict = verdict_of(item.failure)
    return Check(item.item.path, item.name, verdict, text, item.diagnostics, item.failure)


def _worded(item: Judged) -> str:
    """The kind of the failure before its sentence, unless that begins with it."""
    kind = str(item.failure)
    return item.why if item.why.startswith(kind) else f"{kind}: {item.why}"


def document(judged: Sequence[Judged]) -> str:
    """One JSON object; versioned by `FORMAT_VERSION`."""
    content = {
        "version": FORMAT_VERSION,
        "ok": all(item.ok for item in judged),
        "items": [_as_dict(item) for item in judged],
    }
    return json.dumps(content, indent=2) + "\n"


def _as_dict(item: Judged) -> dict[str, object]:
    return {
        "kind": item.item.kind,
        "path": item.item.path,
        "name": item.name,
        "ok": item.ok,
        "failure": str(item.failure) or None,
        "why": item.why,
        "verdict": item.verdict,
        "stated": list(item.stated),
        "scope": item.scope,
        "policies": dict(item.policies),
        "bounded": item.bounded,
        "diagnostics": [json_render.as_dict(one) for one in item.diagnostics],
    }
