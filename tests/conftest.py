"""For all tests: no deadlines, and where the time of a run goes, by folder, at the end of it."""

from __future__ import annotations

import os
from collections import Counter

import pytest
from hypothesis import HealthCheck, settings

# A busy machine is no reason for a test to fail: examples are bounded by their number alone.
settings.register_profile("titan", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("titan")

SHOWN_SECONDS = 1.0

# Commands work in this process unless a test asks for more: what a test patches is seen, and tests
# run side by side already.
os.environ.setdefault("TITAN_JOBS", "1")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Seconds of setup, call and teardown of all tests, summed by folder; small folders
    together."""
    spent: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                path = report.nodeid.partition("::")[0]
                spent["/".join(path.split("/")[1:-1]) or "."] += report.duration
    if sum(spent.values()) < 10 * SHOWN_SECONDS:
        return
    terminalreporter.write_sep("=", "seconds by folder of tests/")
    small = sum(seconds for seconds in spent.values() if seconds < SHOWN_SECONDS)
    for folder, seconds in spent.most_common():
        if seconds >= SHOWN_SECONDS:
            terminalreporter.write_line(f"{seconds:8.1f}  {folder}")
    terminalreporter.write_line(f"{small:8.1f}  others")
