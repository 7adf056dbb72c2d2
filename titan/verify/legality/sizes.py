"""Bytes of copies: what a copy completes is what it fills.

Sources: PTX ISA, cp.async.bulk (the size that is copied is the size that complete_tx counts); CUDA
driver API, cuTensorMapEncodeTiled (the box). A size that the file does not say is not judged.
One that an expression gives may be less, as for a last copy, and not more.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from titan.foundation.diagnostics.model import Diagnostic
from titan.foundation.diagnostics.wording import quoted
from titan.language.kernel.table import PACKED_COUNTED
from titan.sync.expression import Constant, Expression
from titan.sync.program import Asynchronous, Effect, Proxy, Space
from titan.verify.legality.case import Case, plain
from titan.verify.legality.rule import rule
from titan.verify.legality.tensor_maps import box_bytes


@rule("TTN429", "bulk_alignment")
def copy_has_the_bytes_of_what_it_fills(case: Case) -> Iterator[Diagnostic]:
    """A copy completes, in each CTA, the bytes of the stages or parts that it fills there."""
    for item in case.bulk_copies():
        filled = _filled(case, item)
        completed = _completed(case, item)
        for cta in sorted(filled.keys() & completed.keys()):
            named, (given, exact) = filled[cta], completed[cta]
            if named == given or (given < named and not exact):
                continue
            names = quoted(plain(next(e.buffer for e in item.effects if e.write)))
            more = "more" if given > named else "fewer"
            headline = f"a copy completes {given} bytes, {more} than the {named} of {names}"
            helps = (
                "leave out `bytes`: it is the size of what is written",
                "declare `parts`, so that each copy fills its own" if given < named else
                "declare the bytes that one stage has",
            )  # fmt: skip
            yield case.fault(
                "TTN429", headline, item.span, source="bulk_alignment", helps=helps,
                label=f"{given} bytes into {named}",
            )  # fmt: skip
            break


@rule("TTN429", "tensor_alignment")
def boxes_fill_what_is_copied(case: Case) -> Iterator[Diagnostic]:
    """What one tensor map fills is a whole number of its boxes."""
    for item in case.bulk_copies():
        for effect in item.effects:
            maps = case.maps_of.get(plain(effect.buffer), [])
            size = _bytes_of(case, effect) if _in_shared(case, effect) else 0
            if len(maps) != 1 or not size:
                continue
            box = box_bytes(maps[0])
            if box and box <= size and size % box:
                headline = f"{quoted(plain(effect.buffer))} is filled by boxes of {box} bytes, and "
                headline += f"a copy of {size} bytes is not a whole number of them"
                yield case.fault("TTN429", headline, item.span, source="box_max")


def _filled(case: Case, item: Asynchronous) -> dict[int, int]:
    """Bytes of what is written in the shared memory of each CTA; without those not known."""
    found: dict[int, int] = defaultdict(int)
    unknown = set()
    for effect in item.effects:
        if effect.write and _in_shared(case, effect):
            cta, size = case.homes[effect.buffer], _counted(case, effect)
            found[cta] += size
            if not size or effect.proxy is not Proxy.ASYNC:
                unknown.add(cta)
    return {cta: size for cta, size in found.items() if cta not in unknown}


def _completed(case: Case, item: Asynchronous) -> dict[int, tuple[int, bool]]:
    """Bytes that are completed in each CTA at most, and whether they are always so many.

    Without CTAs where several expressions say it: they need not be large in one run.
    """
    homes = {barrier.name: barrier.cta for barrier in case.program.barriers}
    given: dict[int, list[Expression]] = defaultdict(list)
    for completion in item.completes:
        given[homes.get(completion.barrier.name, 0)].append(completion.bytes)
    found = {}
    for cta, sizes in given.items():
        exact = all(isinstance(size, Constant) for size in sizes)
        values = [max(case.values_of(item, size), default=None) for size in sizes]
        known = [value for value in values if value is not None]
        if len(known) == len(sizes) and (exact or len(sizes) == 1):
            found[cta] = sum(known), exact
    return found


def _counted(case: Case, effect: Effect) -> int:
    """Bytes that the barrier counts for a copy into what an effect touches, as `_bytes_of`.

    A ring derives what is expected and what is completed from the same number: no scale there.
    """
    maps = case.maps_of.get(plain(effect.buffer), [])
    counted = {PACKED_COUNTED.get(item.dtype, (1, 1)) for item in maps}
    if len(counted) != 1 or case.kernel.protocol is not None:
        return _bytes_of(case, effect)
    ((times, parts),) = counted
    return _bytes_of(case, effect) * times // parts


def _in_shared(case: Case, effect: Effect) -> bool:
    memory = case.memories.get(plain(effect.buffer))
    return memory is not None and memory.buffer.space is Space.SHARED


def _bytes_of(case: Case, effect: Effect) -> int:
    """Bytes of the stage or the part that an effect touches; 0 where they are not known."""
    memory = case.memories[plain(effect.buffer)]
    if effect.part is None:
        return memory.bytes_per_stage
    return memory.bytes_per_stage // memory.buffer.parts
