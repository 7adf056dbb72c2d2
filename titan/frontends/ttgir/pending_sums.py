"""Sums of asynchronous products that are used before a wait says that they are complete.

The result of an asynchronous `ttng.warp_group_dot` stands in registers, which the tensor cores
write until a `ttng.warp_group_dot_wait` leaves no more products in flight than were issued after
it (PTX ISA, wgmma.wait_group). Until then it may be the sum that another product adds to, be handed
on, and be waited for. Along the text, each value in flight has the least number of products that
were issued after it, over all ways that lead there; every loop is taken to run any number of times,
and each condition to hold or not, apart from others. A wait for one value is one for all that were
issued before. An `arith.select` hands on, too: LLVM makes a branch of one that begins a sum with
zeros again, as Triton's persistent kernels do. Values that a `scf.while` carries are not followed.
"""

from __future__ import annotations

from collections.abc import Iterable

from titan.foundation.diagnostics.model import Annotation, Diagnostic, diagnostic
from titan.frontends.ttgir.model import Block, TtgirFunction, TtgirOperation

WAIT = "ttng.warp_group_dot_wait"
ISSUED_MAX = 16  # products behind a value that are counted; a wait that leaves more completes none
_ACCUMULATOR = 2  # its place among the operands of a product
_ENDS = ("scf.yield", "ttg.warp_yield", "scf.condition")
_NOT_FOLLOWED = ("scf.while", "ttg.warp_specialize")  # what they are given is not a use
_OWN_WARPS = "partition"  # how the label of a region that other warps execute begins

Pending = tuple[int, TtgirOperation]  # products issued after it, at least; the product
Values = dict[str, Pending]


def used_sums(function: TtgirFunction) -> list[Diagnostic]:
    """The uses of values in flight, in the order of the text."""
    uses = _Uses()
    uses.block(function.body, {})
    return [made for _, made in sorted(uses.found.items())]


def _least(*ways: Values) -> Values:
    """What may be in flight where ways meet."""
    met: Values = {}
    for way in ways:
        for name, pending in way.items():
            if name not in met or pending[0] < met[name][0]:
                met[name] = pending
    return met


class _Uses:
    def __init__(self) -> None:
        self.found: dict[int, Diagnostic] = {}  # by the number of the operation

    def block(self, block: Block, values: Values) -> list[Pending | None]:
        """Goes through a block, `values` changing with it: what it hands on, in flight or not."""
        for operation in block.operations:
            if operation.name in _ENDS:
                return [values.get(name) for name in operation.operands]
            self._operation(operation, values)
        return []

    def _operation(self, operation: TtgirOperation, values: Values) -> None:
        match operation.name:
            case "ttng.warp_group_dot":
                self._product(operation, values)
            case "ttng.warp_group_dot_wait":
                _wait(operation, values)
            case "scf.for":
                self._loop(operation, values)
            case "arith.select":
                self._use(operation, operation.operands[:1], values)
                for chosen in operation.operands[1:]:
                    made = _in_flight(operation.results, [values.get(chosen)])
                    values |= _least(values, made)
            case name:
                if name not in _NOT_FOLLOWED:
                    self._use(operation, operation.operands, values)
                if operation.regions:
                    self._regions(operation, values)

    def _product(self, operation: TtgirOperation, values: Values) -> None:
        operands = operation.operands
        self._use(operation, (*operands[:_ACCUMULATOR], *operands[_ACCUMULATOR + 1 :]), values)
        if operation.attributes.get("isAsync") != "true":
            values.clear()
            return
        for name, (issued, product) in values.items():
            values[name] = min(issued + 1, ISSUED_MAX), product
        values |= dict.fromkeys(operation.results, (0, operation))

    def _loop(self, operation: TtgirOperation, values: Values) -> None:
        """A loop that goes round any number of times, or none."""
        self._use(operation, operation.operands[1:4], values)
        carried = operation.operands[4::2]
        starts = [values.get(name) for name in operation.operands[5::2]]
        head = values | _in_flight(carried, starts)
        while operation.regions:
            end = dict(head)
            made = self.block(operation.regions[0], end)
            met = _least(head, end, _in_flight(carried, made))
            if {name: one[0] for name, one in met.items()} == {n: o[0] for n, o in head.items()}:
                break
            head = met
        values |= head
        values |= _in_flight(operation.results, [head.get(name) for name in carried])

    def _regions(self, operation: TtgirOperation, values: Values) -> None:
        """Regions of which each may be executed, once; those of other warps begin with none."""
        ends, results = [dict(values)], []
        for region in operation.regions:
            end = {} if region.label.startswith(_OWN_WARPS) else dict(values)
            results.append(_in_flight(operation.results, self.block(region, end)))
            ends.append(end)
        if operation.name == "ttg.warp_specialize" or (
            operation.name == "scf.if" and len(operation.regions) > 1
        ):
            ends.pop(0)
        met = _least(*ends)
        values.clear()
        values |= met
        if operation.name not in _NOT_FOLLOWED:
            values |= _least(*results)

    def _use(self, operation: TtgirOperation, names: Iterable[str], values: Values) -> None:
        used = next((name for name in names if name in values), None)
        if used is None or operation.number in self.found:
            return
        product = values[used][1]
        headline = f"{used} is used while a product in flight writes its registers"
        self.found[operation.number] = diagnostic(
            "TTN217",
            headline,
            operation.span,
            "here",
            others=(Annotation(product.span, "in flight since it started here"),),
            helps=(f"wait for it ({WAIT}) with no more in flight than were issued after it",),
        )


def _wait(operation: TtgirOperation, values: Values) -> None:
    left = operation.integer("pendings", 0)
    for name in [name for name, (issued, _) in values.items() if issued >= left]:
        del values[name]
    kept = [values.get(name) for name in operation.operands]
    values |= _in_flight(operation.results, kept)


def _in_flight(names: Iterable[str], pendings: Iterable[Pending | None]) -> Values:
    return {name: one for name, one in zip(names, pendings, strict=False) if one is not None}
