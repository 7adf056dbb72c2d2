"""Words that diagnostics share: nearest names, counts, lists, and untrusted text made harmless.

Messages are in lower case without a full stop and never say how to fix; a `help` does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

_SHOWN_LENGTH = 60
_SUGGESTION_LENGTH = 80


def printable(text: str, limit: int = _SHOWN_LENGTH) -> str:
    """`text` on one line, cut to `limit`, every character that a terminal could act on escaped."""
    cut = text[: limit + 1]
    shown = "".join(char if char.isprintable() else _escape(char) for char in cut)
    return shown[: limit - 1] + "…" if len(text) > limit or len(shown) > limit else shown


def clean(text: str) -> str:
    """`text` as it may go to a terminal: line breaks stay, other control characters are escaped."""
    return "".join(c if c.isprintable() or c == "\n" else _escape(c) for c in text)


def one_line(text: str) -> str:
    """A path or name as it may go into a line of a log: line breaks are escaped, too."""
    return clean(text).replace("\n", "\\n")


def _escape(char: str) -> str:
    number = ord(char)
    return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}"


def quoted(text: str) -> str:
    """An identifier or value of the input, in backticks."""
    return f"`{printable(text).replace('`', chr(39))}`"


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most like `name`, or None when none is like it."""
    if not name or len(name) > _SUGGESTION_LENGTH:
        return None
    names = sorted(known)
    folded = {candidate.casefold(): candidate for candidate in names}
    import difflib

    close = difflib.get_close_matches(name.casefold(), list(folded), n=1, cutoff=0.6)
    return folded[close[0]] if close else None


def suggestion(name: str, known: Iterable[str]) -> tuple[str, ...]:
    """The helps for an unknown name: the nearest one, or the list of all when it is short."""
    names = sorted(known)
    close = nearest(name, names)
    if close is not None:
        return (f"did you mean {quoted(close)}?",)
    if 0 < len(names) <= 16:
        return (f"known here: {listed(names)}",)
    return ()


def listed(names: Sequence[str], last: str = "and") -> str:
    """Names in backticks with an Oxford comma."""
    shown = [quoted(name) for name in names]
    if len(shown) <= 2:
        return f" {last} ".join(shown)
    return ", ".join(shown[:-1]) + f", {last} {shown[-1]}"


def counted(number: int, noun: str, plural: str = "") -> str:
    """`1 error`, `2 errors`."""
    one = str(number) == "1"  # an open number of a certificate is not asked what it is
    return f"{number} {noun if one else plural or noun + 's'}"
