"""The rules: one module each, whose docstring is the explanation that users read.

The first line of a docstring states the fault; then come the headings of `HEADINGS`, in this order.
Modules are loaded only when an explanation is asked for.
"""

from __future__ import annotations

import importlib
import inspect
import re
from dataclasses import dataclass

from titan.foundation.diagnostics.codes import Code

HEADINGS = ("What it means", "Why it is a fault", "Example", "What to do", "Source")
_HEADING = re.compile(r"^## (.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class RuleExplanation:
    """A rule as documented: its summary line and the text under each heading."""

    code: str
    name: str
    summary: str
    sections: dict[str, str]

    def markdown(self) -> str:
        """The whole explanation as a Markdown document."""
        parts = [f"# {self.code} {self.name}", self.summary[:1].upper() + self.summary[1:] + "."]
        for heading, text in self.sections.items():
            parts += [f"## {heading}", text]
        return "\n\n".join(parts) + "\n"


def explanation(entry: Code) -> RuleExplanation:
    """Load the explanation of a rule. Raises ModuleNotFoundError when the rule has no module."""
    module = importlib.import_module(entry.module)
    document = inspect.cleandoc(module.__doc__ or "")
    pieces = _HEADING.split(document)
    sections = {
        heading: text.strip("\n") for heading, text in zip(pieces[1::2], pieces[2::2], strict=True)
    }
    return RuleExplanation(module.CODE, module.NAME, pieces[0].strip(), sections)
