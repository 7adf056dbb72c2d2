"""Results for programs that collect them: one record a check, whatever command made it.

A check is a kernel of `titan verify`, an item of `titan gate`, a test of `titan litmus check`, a
variant of `titan stress`. The writers for CI systems (`sarif`, `junit`, `github`, `gitlab`) know
this record and nothing else, so that all commands speak all formats. Their output depends on the
input alone: no times, no host.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from titan.foundation.diagnostics.model import Diagnostic, Severity
from titan.foundation.verdict import Verdict
from titan.report.findings import diagnostics_of, narrowing_text, parameters_text
from titan.verify.model import Finding

# Format -> the module whose `render(checks)` writes it.
CI_FORMATS = {
    "sarif": "titan.report.sarif",
    "junit": "titan.report.junit",
    "github": "titan.report.github",
    "gitlab": "titan.report.gitlab",
}


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was checked.

    `path` is the file as the user named it; `summary` one line that can stand alone: the scope of
    what is verified, else why it is not. `failure` is the word for a failure that no diagnostic
    has a rule for; empty, the word is that of the verdict.
    """

    path: str
    name: str
    verdict: Verdict
    summary: str
    diagnostics: tuple[Diagnostic, ...] = ()
    failure: str = ""

    @property
    def word(self) -> str:
        """What failed, in a word, where `unreported`."""
        return self.failure or self.verdict.value

    @property
    def is_open(self) -> bool:
        """Whether it is undecided, and that by itself fails nothing."""
        return self.verdict is Verdict.UNDECIDED and not self.failure

    @property
    def unreported(self) -> bool:
        """Whether the check is not verified and no diagnostic says so."""
        if self.verdict is Verdict.UNDECIDED:
            return True
        return self.verdict is not Verdict.VERIFIED and not self.errors

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        """The diagnostics that refute or refuse."""
        return tuple(item for item in self.diagnostics if item.severity is Severity.ERROR)


def check_of(finding: Finding) -> Check:
    """The record of a verdict of `titan verify`."""
    found = tuple(diagnostics_of(finding))
    errors = [item for item in found if item.severity is Severity.ERROR]
    remarks = [report.remark for report in finding.engines if report.remark]
    if finding.verdict is Verdict.VERIFIED:
        text = f"verified for {parameters_text(finding.coverage)}{narrowing_text(finding)}"
    elif errors:
        text = errors[0].headline
    else:
        text = f"{finding.verdict.value}{narrowing_text(finding)}"
        text += "".join(f"; {remark}" for remark in remarks)
    return Check(finding.path, finding.kernel, finding.verdict, text, found)


def render(checks: Iterable[Check], format_name: str) -> str:
    """The checks in a format of `CI_FORMATS`. Raises KeyError for another one."""
    module = importlib.import_module(CI_FORMATS[format_name])
    return str(module.render(list(checks)))


def relative_uri(path: str) -> str:
    """A path as the relative URI that code hosts match on: forward slashes, percent-encoded."""
    from urllib.parse import quote

    plain = path.replace("\\", "/")
    while plain.startswith("./"):
        plain = plain[2:]
    return quote(plain, safe="/~")


def by_path(checks: Sequence[Check]) -> dict[str, list[Check]]:
    """The checks of each file, files in the order of their first check."""
    found: dict[str, list[Check]] = {}
    for check in checks:
        found.setdefault(check.path, []).append(check)
    return found
