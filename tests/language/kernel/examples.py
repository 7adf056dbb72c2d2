"""Kernel files that several tests read: the examples of the documents, and the library."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
LIBRARY = sorted((ROOT / "protocols").glob("*.yaml"))
DOCUMENTS = (
    ROOT / "docs" / "reference" / "language.md",
    ROOT / "docs" / "tutorial" / "first_kernel.md",
)


def yaml_blocks(document: Path) -> list[str]:
    """The complete kernel files in a document."""
    blocks = re.findall(r"```yaml\n(.*?)```", document.read_text(encoding="utf-8"), re.DOTALL)
    return [block for block in blocks if block.startswith("titan:")]


def documented() -> list[tuple[str, str]]:
    """All examples of the documents with a name each."""
    return [
        (f"{document.name}-{number}", text)
        for document in DOCUMENTS
        for number, text in enumerate(yaml_blocks(document))
    ]


def library() -> list[tuple[str, str]]:
    """The kernels of the library, loop files left out."""
    texts = [(path.name, path.read_text(encoding="utf-8")) for path in LIBRARY]
    return [(name, text) for name, text in texts if not re.search(r"(?m)^loop\s*:", text)]
