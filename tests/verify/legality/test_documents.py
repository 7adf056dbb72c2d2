"""The page on legality lists the rules as they are."""

from __future__ import annotations

from pathlib import Path

from titan.verify.legality.check import all_rules

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "legality.md"


def rows() -> str:
    """The table of rules: code, name, and the first line of what the function says."""
    lines = ["| code | rule | |", "| --- | --- | --- |"]
    for rule in all_rules():
        said = (rule.check.__doc__ or "").split("\n")[0].rstrip(".")
        lines.append(f"| {rule.code} | `{rule.name}` | {said} |")
    return "\n".join(lines)


def test_the_table_is_that_of_the_rules():
    assert rows() in PAGE.read_text(encoding="utf-8"), rows()
