"""What a store of AMD assembly writes, as bytes that can be compared without NumPy.

A mark, the number of its addresses, the number of its data (`titan/isa/waves/numbering.py`). With
the mark `KNOWN` all data are known and each lane has its own place.
"""

from __future__ import annotations

KNOWN, COMPUTED = b"K", b"N"
DIGEST_BYTES = 16
MADE = b"made"  # of marks by `titan/isa/waves/lane_values.py`


def surely_different(one: bytes | None, other: bytes | None) -> bool:
    """Whether two stores by the same lanes to the same addresses leave different bytes."""
    if one is None or other is None or not one[:1] == other[:1] == KNOWN:
        return False
    cut = 1 + DIGEST_BYTES
    return one[1:cut] == other[1:cut] and one[cut:] != other[cut:]
