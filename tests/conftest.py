"""For all tests: no deadlines, which of them a run takes (tests/sampling.py), and where its time
goes, by folder, at the end of it.
"""

from __future__ import annotations

import gc
import os
import tempfile
from collections import Counter

import pytest
from hypothesis import HealthCheck, settings

from tests.sampling import of_part, representatives

# A busy machine is no reason for a test to fail: examples are bounded by their number alone.
settings.register_profile("titan", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("titan")

# As commands have it (titan/cli/main.py): a tenth of the time.
gc.set_threshold(50_000, 20, 50)

SHOWN_SECONDS = 1.0

# Commands work in this process unless a test asks for more: what a test patches is seen, and tests
# run side by side already.
os.environ.setdefault("TITAN_JOBS", "1")


@pytest.hookimpl(trylast=True)  # behind pytest, which makes its folder then
def pytest_configure(config: pytest.Config) -> None:
    """Temporary files of tests, and of what they start, lie in pytest's folder of this run, which
    a later run removes: so nothing stays of a run that is killed.
    """
    scratch = config._tmp_path_factory.getbasetemp() / "scratch"
    scratch.mkdir(exist_ok=True)
    os.environ["TMPDIR"] = tempfile.tempdir = str(scratch)


@pytest.hookimpl(tryfirst=True)  # before -m looks at the marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark one test of each heavy function, and leave the tests of the part that is asked for."""
    found = [(x.nodeid, has(x, "heavy"), takes_long(x)) for x in items]
    chosen = representatives(found)
    for item in items:
        if item.nodeid in chosen:
            item.add_marker(pytest.mark.sampled)
    if wanted := os.environ.get("TITAN_PART"):
        try:
            left = [item for item in items if of_part(item.nodeid, wanted)]
        except ValueError as error:
            raise pytest.UsageError(f"TITAN_PART: {error}") from None
        config.hook.pytest_deselected(items=[x for x in items if not of_part(x.nodeid, wanted)])
        items[:] = left


def has(item: pytest.Item, mark: str) -> bool:
    return item.get_closest_marker(mark) is not None


def takes_long(item: pytest.Item) -> bool:
    """Whether a test says so, or has a limit of its own beyond that of all tests."""
    limit = item.get_closest_marker("timeout")
    usual = float(item.config.getini("timeout"))
    return has(item, "long") or (limit is not None and limit.args[0] > usual)


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
