"""The documentation site: built strictly, so that links lead somewhere; nothing from outside."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_REQUEST = re.compile(r"<(?:script|link|img|iframe)[^>]+(?:src|href)=\"(https?:)?//", re.I)


@pytest.mark.heavy
@pytest.mark.timeout(900)
def test_the_site_is_built_strictly(tmp_path: Path) -> None:
    pytest.importorskip("material", reason="pip install -e '.[docs]'")
    site = tmp_path / "site"
    subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(site)],
        cwd=ROOT, check=True,
    )  # fmt: skip
    gallery = (site / "reference" / "gallery.html").read_text(encoding="utf-8")
    assert "<td></td>" not in gallery, "each kernel says what it models"
    for path in sorted((ROOT / "protocols").glob("*.yaml")):
        assert f"gallery/{path.stem}.html" in gallery
        page = (site / "reference" / "gallery" / f"{path.stem}.html").read_text(encoding="utf-8")
        assert "VERIFIED" in page.upper() and not _REQUEST.search(page)
    for path in sorted((ROOT / "protocols" / "loops").glob("*.yaml")):
        assert f"gallery/{path.stem}.svg" in gallery
        assert (site / "reference" / "gallery" / f"{path.stem}.svg").stat().st_size > 500
    assert not _REQUEST.search((site / "index.html").read_text(encoding="utf-8"))


def test_links_between_pages_lead_somewhere() -> None:
    """The part of strictness that needs no site."""
    broken = []
    for page in sorted((ROOT / "docs").rglob("*.md")):
        text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)#\s]+)", text):
            made = page.name == "gallery.md" or target.startswith(("http:", "https:", "mailto:"))
            if not made and not (page.parent / target).exists():
                broken.append(f"{page.relative_to(ROOT)}: {target}")
    assert broken == []
