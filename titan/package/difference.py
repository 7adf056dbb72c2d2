"""Where two JSON values first differ; types count, so that 1, 1.0 and true are three values."""

from __future__ import annotations

from titan.package.contents import printable


def difference(expected: object, stated: object, path: str = "") -> str | None:
    """A sentence on the first difference, or None where there is none."""
    place = f"`{path}`" if path else "the content"
    if type(expected) is not type(stated):
        return f"{place} is {_shown(stated)}, not {_shown(expected)}"
    if isinstance(expected, dict) and isinstance(stated, dict):
        for key in expected:
            if key not in stated:
                return f"{place} lacks `{printable(str(key))}`"
        for key in stated:
            if key not in expected:
                return f"{place} has an unknown key `{printable(str(key))}`"
        pairs = [(f"{path}.{key}".lstrip("."), expected[key], stated[key]) for key in expected]
    elif isinstance(expected, list) and isinstance(stated, list):
        if len(expected) != len(stated):
            return f"{place} has {len(stated)} items, not {len(expected)}"
        pairs = [
            (f"{path}[{i}]", *pair) for i, pair in enumerate(zip(expected, stated, strict=True))
        ]
    else:
        same = expected == stated
        return None if same else f"{place} is {_shown(stated)}, not {_shown(expected)}"
    for inner, left, right in pairs:
        found = difference(left, right, inner)
        if found is not None:
            return found
    return None


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    text = str(value).lower() if isinstance(value, bool | None) else str(value)
    return printable(text)[:24]
