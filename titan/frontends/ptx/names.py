"""Names of compiled functions as a person reads them: Itanium-mangled ones by their head."""

from __future__ import annotations

import re

NAME_LENGTH_MAX = 80


def short_name(name: str) -> str:
    """A long mangled name of a template by its head: `cutlass::device_kernel<...>`."""
    if len(name) <= NAME_LENGTH_MAX or not name.startswith("_Z"):
        return name
    parts, at = [], 3 if name.startswith("_ZN") else 2
    while found := re.match(r"\d+", name[at:]):
        at += found.end()
        parts.append(name[at : at + int(found[0])])
        at += int(found[0])
    return "::".join(parts) + "<...>" if parts else name
