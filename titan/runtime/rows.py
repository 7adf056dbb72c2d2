"""A call in two shares of rows: whole waves of tiles by one package, what remains by another.

Tiles seldom fill whole waves of CTAs, and the last wave leaves most multiprocessors idle. The rows
of the whole waves go to one package, the others, as views of the same arrays, to whatever is
estimated to be fastest for them: smaller tiles, or parts over K and their sum. That is what
stream-K is for, without flags between CTAs: launches on one stream, each with a fixed order of
sums, so that the result is the same in every run.

Which size counts rows follows from the shapes: it leads every tensor that names it, the outputs
among them, and not all tensors (a batch does). That rows are computed apart is tried on random
numbers, a test and no proof, as between packages (`correspondence`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from titan.codegen.tile.dtypes import INDEX_TYPE
from titan.codegen.tile.manifest import ALIGNMENT_BYTES, Manifest, sizes_by_name
from titan.device.expressions import evaluate
from titan.device.plan import BYTES, Unlaunchable, plan
from titan.runtime.arrays import ArrayFacts, CallError
from titan.runtime.correspondence import TOLERANCE, computation_of
from titan.runtime.leading import foldable

ROWS_STEP = 16  # shares have a multiple of so many rows: 16 bytes of a transposed operand
WAVES_LEFT_MOST = 2  # the last wave remains, or the last two
TRIED_ROWS = 520  # more than two tiles, and a part of one
TRIED_OTHERS = (80, 144)  # given to the other sizes in turn: 16 bytes of any type, tiles with ends
TRIED_SHARES = (16, 272)  # within a tile, and behind one


def rows_size(manifest: Manifest) -> str | None:
    """The size that counts rows which are computed apart; None where there is none."""
    tensors = manifest["tensors"]
    if sizes_by_name(manifest) or any(item["dtype"] == INDEX_TYPE for item in tensors):
        return None  # what is looked up may be by row
    if any(item.get("adds") for item in tensors):
        return None
    for name, whole in foldable(manifest).items():
        outputs = [item for item in tensors if item["output"]]
        leads = all(item["shape"] and item["shape"][0] == name for item in outputs)
        if leads and not whole and _apart(manifest, name):
            return name
    return None


def rows_of_waves(
    manifest: Manifest, sizes: Mapping[str, int], name: str, processors: int
) -> list[int]:
    """How many rows end with a whole wave, the most first: all but the last wave or two."""
    waves = -(-evaluate(manifest["work"], sizes) // processors)
    found = []
    for count in range(waves - 1, max(0, waves - 1 - WAVES_LEFT_MOST), -1):
        low, high = 0, (sizes[name] - 1) // ROWS_STEP
        while low < high:
            middle = (low + high + 1) // 2
            items = evaluate(manifest["work"], {**sizes, name: middle * ROWS_STEP})
            low, high = (middle, high) if items <= count * processors else (low, middle - 1)
        found.append(low * ROWS_STEP)
    return [rows for rows in dict.fromkeys(found) if rows]


def shares(
    manifest: Manifest, name: str, arrays: Mapping[str, ArrayFacts], rows: int
) -> tuple[dict[str, ArrayFacts], dict[str, ArrayFacts]]:
    """The arrays of the first `rows` rows and of the others: views. Raises CallError where the
    second share does not begin at a multiple of 16 bytes."""
    first, second = dict(arrays), dict(arrays)
    for item in manifest["tensors"]:
        if not item["shape"] or item["shape"][0] != name or item["name"] not in arrays:
            continue
        facts = arrays[item["name"]]
        if not 0 < rows < facts.shape[0]:
            raise CallError(f"{item['name']} has {facts.shape[0]} rows, no share of {rows}")
        offset = rows * facts.strides[0] * BYTES[item["dtype"]]
        if offset % ALIGNMENT_BYTES:
            raise CallError(
                f"row {rows} of {item['name']} lies {offset} bytes behind the first: a view takes"
                f" multiples of {ALIGNMENT_BYTES}"
            )
        first[item["name"]] = replace(facts, shape=(rows, *facts.shape[1:]))
        second[item["name"]] = replace(
            facts, address=facts.address + offset, shape=(facts.shape[0] - rows, *facts.shape[1:])
        )
    return first, second


def _apart(manifest: Manifest, rows_name: str) -> bool:
    """Whether shares of random rows give what all rows give."""
    import numpy

    from titan.codegen.tile.dtypes import rounded
    from titan.codegen.tile.outputs import sample_numbers

    computation = computation_of(manifest)
    others = sorted(computation.sizes - {rows_name})
    sizes = {name: TRIED_OTHERS[place % len(TRIED_OTHERS)] for place, name in enumerate(others)}
    sizes[rows_name] = TRIED_ROWS
    try:
        tensors = plan(manifest, sizes, 1).tensors
    except Unlaunchable:
        return False
    random = numpy.random.default_rng(0)
    inputs = {
        item.name: rounded(sample_numbers(random, item.dtype, item.shape), item.dtype)
        for item in tensors
        if not item.output
    }
    led = {item["name"] for item in manifest["tensors"] if item["shape"][:1] == [rows_name]}
    whole = computation.compute(inputs, sizes)
    for rows in TRIED_SHARES:
        for here in (slice(0, rows), slice(rows, TRIED_ROWS)):
            given = {name: one[here] if name in led else one for name, one in inputs.items()}
            part = computation.compute(given, {**sizes, rows_name: here.stop - here.start})
            if whole is None or part is None:
                return False
            for name, values in whole.items():
                scale = float(numpy.abs(values).max()) or 1.0
                if not float(numpy.abs(values[here] - part[name]).max()) <= TOLERANCE * scale:
                    return False
    return True
