"""Kernels as tests: files `*.titan.yaml` are collected, `@pytest.mark.titan("kernel.yaml")`
verifies.

A collected file gives one test for each kernel in it. A marked test runs only if its kernels
verify; paths are relative to the file of the test. Failures show TITAN's diagnostic instead of a
traceback. Undecided is a failure: a test that cannot decide has not passed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from titan.verify.model import Finding

SUFFIXES = (".titan.yaml", ".titan.yml")
MARK = "titan(path, ..., require='any'): verify these kernel files before the test runs"


def pytest_configure(config: pytest.Config) -> None:
    """Declares the marker."""
    config.addinivalue_line("markers", MARK)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds `--titan-require`."""
    parser.getgroup("titan").addoption(
        "--titan-require",
        choices=("any", "bounded"),
        default="any",
        help="What a kernel file has to be verified for: every value of its open sizes, or some.",
    )


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> CollectedKernels | None:
    """Kernel files by their suffix."""
    if file_path.name.endswith(SUFFIXES):
        return CollectedKernels.from_parent(parent, path=file_path)
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """Verifies the kernels that a test is marked with, before it runs."""
    for mark in item.iter_markers("titan"):
        require = str(mark.kwargs.get("require", item.config.getoption("--titan-require")))
        for path in mark.args:
            for finding in _findings(Path(item.path).parent / str(path), require):
                _demand([finding])


class CollectedKernels(pytest.File):
    """A kernel file; its items are its kernels."""

    def collect(self) -> Iterator[pytest.Item]:
        """One item for each kernel; one for the whole file if it cannot be read."""
        from titan.verify.model import VerifyOptions
        from titan.verify.pipeline import count_kernels

        for number in range(max(1, count_kernels(str(self.path), VerifyOptions()))):
            yield KernelItem.from_parent(self, name=f"kernel {number}", number=number)


class KernelItem(pytest.Item):
    """One kernel of a file: passes when it is verified."""

    def __init__(self, *, number: int, **given: object) -> None:
        super().__init__(**given)  # type: ignore[arg-type]
        self.number = number

    def runtest(self) -> None:
        """Verifies the kernel, and fails with its diagnostic."""
        require = str(self.config.getoption("--titan-require"))
        _demand(_findings(self.path, require, self.number))

    def reportinfo(self) -> tuple[Path, int, str]:
        """The location and name of the item."""
        return self.path, 0, f"{self.path.name}: {self.name}"


def _findings(path: Path, require: str, number: int | None = None) -> Sequence[Finding]:
    from titan.verify.model import VerifyOptions
    from titan.verify.pipeline import verify_file

    return verify_file(str(path), VerifyOptions(require=require, save_traces=None), number)


def _demand(findings: Sequence[Finding]) -> None:
    """Fails the test with the report of the kernels that are not verified."""
    from titan.foundation.verdict import Verdict
    from titan.report.findings import render

    wrong = [finding for finding in findings if finding.verdict is not Verdict.VERIFIED]
    if wrong:
        pytest.fail(render(wrong, "text"), pytrace=False)
