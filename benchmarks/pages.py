"""Tables of measurements between two marks of a page."""

from __future__ import annotations

from pathlib import Path


def write_between(page: Path, begin: str, end: str, text: str) -> None:
    """Put the text between the marks, which the page holds once each; the rest stays."""
    before, _, rest = page.read_text(encoding="utf-8").partition(begin)
    _, _, after = rest.partition(end)
    page.write_text(f"{before}{begin}{text}{end}{after}", encoding="utf-8")
