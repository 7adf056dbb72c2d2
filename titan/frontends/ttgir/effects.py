"""The synchronisation of each operation of TTGIR, as operations of the sync program.

The threads of a partition are one agent: Triton places the barriers between them when it lowers
further, from the same order of operations. Sources: the operation definitions of Triton's dialects
TritonGPU and TritonNvidiaGPU, and the PTX that each is lowered to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from titan.foundation.diagnostics.wording import quoted
from titan.foundation.errors import TitanError
from titan.frontends.ttgir.attributes import unknown_attributes
from titan.frontends.ttgir.model import TtgirOperation, memory_types
from titan.frontends.ttgir.places import DraftPlace, bases, group, shared_bits
from titan.frontends.ttgir.values import MemoryView, Root, Value, is_integer, why_unknown
from titan.sync import program as ir
from titan.sync.expression import ONE, ZERO, Constant, Expression

BULK, COPY, WGMMA, TENSOR_CORE = "bulk group", "cp.async", "wgmma", "tcgen05"
CLUSTER = "cluster"
CREATE_MAP, ACQUIRE_MAP = "ttng.tensormap_create", "ttng.tensormap_fenceproxy_acquire"
QUEUES = {
    BULK: ir.Queue(BULK),
    COPY: ir.Queue(COPY),
    WGMMA: ir.Queue(WGMMA, pipelined=True),
    TENSOR_CORE: ir.Queue(TENSOR_CORE, grouped=False, pipelined=True),
}


class Untranslatable(TitanError):
    """An operation that has a known name and a form or operand that is not followed."""


@dataclass(slots=True)
class Operands:
    """The operands of one operation by their places, with what is asked of them.

    `place`: whose operation it is; `layouts`: those of the module; `pairs`: whether tensor cores
    work for pairs of CTAs; `makes_maps`: whether the function writes tensor maps.
    """

    operation: TtgirOperation
    values: list[Value]
    threads: int
    place: DraftPlace = field(default_factory=DraftPlace)
    layouts: Mapping[str, str] = field(default_factory=dict)
    pairs: bool = False
    makes_maps: bool = False

    def check(self) -> None:
        """Raises Untranslatable where an attribute, or an operand in memory, is not followed."""
        for name in unknown_attributes(self.operation):
            raise Untranslatable(f"the meaning of its attribute {quoted(name)} is not known")
        if self.operation.name in HANDLERS:
            left_out = len(memory_types(self.operation.types)) - len(self.views())
            if left_out > 0:
                raise Untranslatable("an operand is memory that the analysis does not track")

    def view(self, place: int) -> MemoryView:
        """The view of memory at a place. Raises Untranslatable."""
        value = self.values[place] if place < len(self.values) else None
        if not isinstance(value, MemoryView) or value.root.maps:
            raise Untranslatable(f"operand {place} is not memory that the analysis tracks")
        return value

    def parts(self) -> list[list[Value]]:
        """The operands by the commas between them; brackets belong to what stands before."""
        found: list[list[Value]] = []
        left = list(self.values)
        depth, part = 0, ""
        for character in self.operation.header + ",":
            depth += (character in "[(") - (character in ")]")
            if character == "," and depth == 0:
                count = part.count("%")
                found.append(left[:count])
                left, part = left[count:], ""
            else:
                part += character
        return found

    def views(self) -> list[MemoryView]:
        """All operands that are memory, but for tensor maps."""
        found = [value for value in self.values if isinstance(value, MemoryView)]
        return [value for value in found if not value.root.maps]

    def map_effect(self, write: bool) -> ir.Effect:
        """The access to the tensor map at the first operand."""
        view = self.values[0]
        if not isinstance(view, MemoryView) or not view.root.maps or view.stage is None:
            raise Untranslatable("which tensor map it accesses is not followed")
        proxy = ir.Proxy.GENERIC if write else ir.Proxy.TENSORMAP
        return ir.Effect(self.place.named(view.root.name), view.stage, write, proxy=proxy)

    def described(self) -> tuple[ir.Effect, ...]:
        """The read of its tensor map by a copy, where the function writes maps."""
        view = self.values[0]
        if not self.makes_maps or (isinstance(view, MemoryView) and view.root.given):
            return ()
        return (self.map_effect(write=False),)

    def integer(self, place: int, default: Expression = ONE) -> Expression:
        """The number at a place, or the default where nothing stands there."""
        if place >= len(self.values):
            return default
        value = self.values[place]
        if isinstance(value, MemoryView) or not is_integer(value):
            raise Untranslatable(f"operand {place} is not known: {why_unknown(value)}")
        return value

    def barrier(self, place: int) -> ir.Reference:
        """The barrier at a place: that of its leader."""
        view = self.view(place)
        return self.reference(view, self.leader(view))

    def reference(self, view: MemoryView, cta: int) -> ir.Reference:
        """The element of the barrier array of a CTA that a view names."""
        view.root.barrier = True
        if view.stage is None and view.root.stages > 1:
            raise Untranslatable("a barrier is one of an array, and none is chosen")
        return ir.Reference(self.place.named(view.root.name, cta), view.stage or ZERO)

    def shared_bits(self, view: MemoryView) -> int:
        """The bits of a rank that do not change which part of what is viewed a CTA holds."""
        if self.place.ctas == 1:
            return 0
        found = bases(view.type, self.layouts)
        if found is None or 1 << len(found) != self.place.ctas:
            raise Untranslatable("the layout does not say how the CTAs share it")
        return shared_bits(found)

    def leader(self, view: MemoryView, cta: int | None = None) -> int:
        """The CTA that has the barrier of a CTA, of this one by default."""
        return (self.place.cta if cta is None else cta) & ~self.shared_bits(view)

    def leads(self, view: MemoryView) -> bool:
        """Whether a barrier is in this CTA."""
        return self.leader(view) == self.place.cta

    def bytes_here(self, view: MemoryView) -> int:
        """The bytes of a view that one CTA holds."""
        parts = self.place.ctas >> self.shared_bits(view).bit_count()
        return view.type.size_bytes // parts

    def effects(
        self, view: MemoryView, write: bool, proxy: ir.Proxy, accumulates: bool = False,
        cta: int | None = None,
    ) -> tuple[ir.Effect, ...]:  # fmt: skip
        """The accesses to what a view covers, in this CTA by default.

        Tensor memory has one path, and needs no fence. Where halves of the waves alternate, each
        writes its own part and reads all.
        """
        if view.partial and write:
            raise Untranslatable("a part of a stage is written")
        proxy = ir.Proxy.GENERIC if view.type.tensor else proxy
        stages: Iterable[Expression] = (view.stage or ZERO,)
        if view.stage is None and view.root.stages > 1:
            stages = [Constant(stage) for stage in range(view.root.stages)]
        name = self.place.named(view.root.name, cta)
        half = self.place.half
        part = None if half is None or not write else Constant(half)
        return tuple(
            ir.Effect(name, stage, write, part=part, proxy=proxy, accumulates=accumulates)
            for stage in stages
        )


Made = list[ir.Operation]


def guarded(condition: Expression, made: Made) -> Made:
    """The operations where the condition holds."""
    if isinstance(condition, Constant):
        return made if condition.value else []
    return [ir.Branch(condition, tuple(made))] if made else []


def _init(of: Operands) -> Made:
    """The leader of a barrier awaits the arrivals of all CTAs that share it."""
    numbers = of.operation.header.rsplit(",", 1)
    count = int(numbers[1]) if len(numbers) == 2 and numbers[1].strip().isdigit() else 1
    view = of.view(0)
    reference = of.barrier(0)
    view.root.count = count << of.shared_bits(view).bit_count()
    return [ir.Init(reference, Constant(view.root.count))] if of.leads(view) else []


def _invalidate(of: Operands) -> Made:
    return [ir.Invalidate(of.barrier(0))] if of.leads(of.view(0)) else []


def laid_on(of: Operands, ended: Iterable[Root]) -> Made:
    """What an allocation may do to the memory of others that have ended.

    It may hold a barrier, so that theirs have to have ended as well. A tile that it is given is
    written there; one without is written later, when more has been waited for.
    """
    made: Made = []
    for root in ended:
        if not root.barrier:
            view = MemoryView(root, None, root.type)
            given = of.operation.operands
            made += [ir.Access(of.effects(view, True, ir.Proxy.GENERIC))] if given else []
        elif root.led:
            for stage in range(root.stages):
                at = ir.Reference(of.place.named(root.name), Constant(stage))
                made += [ir.Init(at, ONE), ir.Invalidate(at)]
    return made


def _wait(of: Operands) -> Made:
    if not of.leads(of.view(0)):
        return []  # the leader alone waits
    return guarded(_predicate(of, 2), [ir.Wait(of.barrier(0), of.integer(1))])


def _predicate(of: Operands, place: int) -> Expression:
    """The predicate, where one stands at this place (tokens and views may stand there as well)."""
    if place >= len(of.values) or isinstance(of.values[place], MemoryView):
        return ONE
    return of.integer(place)


def _number_in_header(of: Operands, place: int) -> int:
    parts = of.operation.header.split(",")
    text = parts[place].strip() if place < len(parts) else ""
    if not text.isdigit():
        raise Untranslatable("a count is written as a number")
    return int(text)


def _expect(of: Operands) -> Made:
    amount = Constant(_number_in_header(of, 1))
    return guarded(of.integer(1), [ir.Arrive(at, ONE, amount) for at in _reached(of)])


def _arrive(of: Operands) -> Made:
    count = Constant(_number_in_header(of, 1))
    return guarded(of.integer(1), [ir.Arrive(at, count) for at in _reached(of)])


def _reached(of: Operands) -> list[ir.Reference]:
    """The barriers that a CTA arrives at: its own, or that of its leader.

    `fromCTA` keeps some bits of a rank: a CTA whose other bits are zero arrives for all CTAs that
    have those of its own, and the others arrive nowhere.
    """
    attributes, view = of.operation.attributes, of.view(0)
    if any(name.startswith("multicast") for name in attributes):
        raise Untranslatable("an arrival at several barriers at once is not read")
    if "fromCTA" not in attributes or of.place.ctas == 1:
        return [of.barrier(0)]
    if of.shared_bits(view):
        raise Untranslatable("an arrival is routed to a barrier that CTAs share")
    kept = of.operation.integer("fromCTA", 0)
    reached = [cta for cta in range(of.place.ctas) if cta & kept == of.place.cta]
    return [of.reference(view, cta) for cta in reached]


def _load_tile(of: Operands) -> Made:
    """async_tma_copy_global_to_local desc[coordinates] destination, barrier, predicate.

    With `multicast`, one of the CTAs that hold the same part copies it to all of them. The bytes
    of each complete its own barrier, in a pair that of the leader.
    """
    views = of.views()
    if len(views) != 2:
        raise Untranslatable("a copy has a destination and a barrier")
    destination, barrier = views
    condition = _predicate(of, of.values.index(barrier) + 1)
    shared = of.shared_bits(barrier)
    if shared and not (shared == 1 and of.pairs):
        raise Untranslatable("a copy completes a barrier that CTAs share which are no pair")
    targets: tuple[int, ...] = (of.place.cta,)
    if "multicast" in of.operation.attributes:
        bits = of.shared_bits(destination)
        targets = group(of.place.cta, bits, of.place.ctas) if not of.place.cta & bits else ()
    made: Made = []
    for cta in targets:
        reference = of.reference(barrier, of.leader(barrier, cta))
        completion = ir.Completion(reference, Constant(of.bytes_here(destination)))
        effects = of.effects(destination, True, ir.Proxy.ASYNC, cta=cta) + of.described()
        made.append(ir.Asynchronous(effects, None, (completion,)))
    return guarded(condition, made)


def _store_tile(of: Operands) -> Made:
    views = of.views()
    if len(views) != 1:
        raise Untranslatable("a store has one source in shared memory")
    effects = of.effects(views[0], False, ir.Proxy.ASYNC) + of.described()
    return [ir.Asynchronous(effects, BULK), ir.Commit(BULK)]


def _store_wait(of: Operands) -> Made:
    pending = Constant(of.operation.integer("pendings", 0))
    reads = "read_only" in of.operation.attributes
    return [ir.QueueWait(BULK, pending, ir.Until.READ if reads else ir.Until.DONE)]


def _copy(of: Operands) -> Made:
    views = of.views()
    if len(views) != 1:
        raise Untranslatable("a copy has one destination in shared memory")
    return [ir.Asynchronous(of.effects(views[0], True, ir.Proxy.GENERIC), COPY)]


def _copy_wait(of: Operands) -> Made:
    return [ir.QueueWait(COPY, Constant(of.operation.integer("num", 0)))]


def _copy_arrive(of: Operands) -> Made:
    if "noIncrement" not in of.operation.attributes:
        raise Untranslatable("an arrival that raises the pending count is not modelled")
    return [ir.QueueArrive(COPY, of.barrier(0), Constant(of.threads))]


def _group_dot(of: Operands) -> Made:
    effects = [one for view in of.views() for one in of.effects(view, False, ir.Proxy.ASYNC)]
    made: Made = [ir.Asynchronous(tuple(effects), WGMMA), ir.Commit(WGMMA)]
    if of.operation.attributes.get("isAsync") != "true":
        made.append(ir.QueueWait(WGMMA))
    return made


def _group_dot_wait(of: Operands) -> Made:
    return [ir.QueueWait(WGMMA, Constant(of.operation.integer("pendings", 0)))]


def _pair(of: Operands) -> tuple[int, ...]:
    """The CTAs that a matrix instruction works for; none where the other CTA of a pair issues."""
    if not of.pairs:
        return (of.place.cta,)
    return () if of.place.cta & 1 else (of.place.cta, of.place.cta | 1)


def _commits(of: Operands, barrier: MemoryView, sources: Iterable[MemoryView]) -> Made:
    """The arrivals of one commit: at both CTAs of a pair, and wherever a source was multicast."""
    if of.shared_bits(barrier):
        raise Untranslatable("a commit arrives at a barrier that CTAs share")
    bits = [0, *(of.shared_bits(view) for view in sources if not view.type.tensor)]
    pair = int(of.pairs)
    targets = {cta for one in bits for cta in group(of.place.cta, one | pair, of.place.ctas)}
    return [ir.QueueArrive(TENSOR_CORE, of.reference(barrier, cta)) for cta in sorted(targets)]


def _tensor_core(of: Operands) -> Made:
    """tc_gen5_mma a, b, d[token], (scales,) use d, predicate, barriers[predicates]."""
    parts = of.parts()
    if len(parts) < 5:
        raise Untranslatable("a matrix instruction has at least five operands")
    scales = 2 if of.operation.name.endswith("scaled") else 0
    if ("two_ctas" in of.operation.attributes) is not of.pairs:
        raise Untranslatable("some products work for pairs of CTAs and some do not")
    if scales and of.place.ctas > 1:
        raise Untranslatable("scaled products in a cluster are not read")
    memory: list[MemoryView] = []
    for place, part in enumerate(parts[: 3 + scales]):
        view = part[0] if part else None
        if not isinstance(view, MemoryView):
            raise Untranslatable(f"operand {place} is not memory that the analysis tracks")
        memory.append(view)
    pair = _pair(of)
    effects: tuple[ir.Effect, ...] = ()
    for cta in pair:
        for place, view in enumerate(memory):
            last = place == 2
            effects += of.effects(view, last, ir.Proxy.ASYNC, accumulates=last, cta=cta)
    made: Made = [ir.Asynchronous(effects, TENSOR_CORE)]
    sources = memory[:2] if "multicast" in of.operation.attributes else []
    for part in parts[5 + scales :]:
        if not part or not isinstance(part[0], MemoryView):
            raise Untranslatable("the arrival is at a barrier that the analysis does not track")
        arrivals = _commits(of, part[0], sources)
        made += guarded(_number(part[1]) if len(part) > 1 else ONE, arrivals)
    condition = _number(*parts[4 + scales][:1])
    return guarded(condition, made) if pair else []


def _number(value: Value) -> Expression:
    if isinstance(value, MemoryView) or not is_integer(value):
        raise Untranslatable(f"a predicate is not known: {why_unknown(value)}")
    return value


def _tensor_commit(of: Operands) -> Made:
    """tc_gen5_commit barrier, predicate descs sources."""
    barrier, *sources = of.views()
    condition = _predicate(of, 1)
    arrivals = _commits(of, barrier, sources)
    return guarded(condition, arrivals) if _pair(of) else []


def _tensor_copy(of: Operands) -> Made:
    """tmem_copy source, destination[, barrier]."""
    if of.place.ctas > 1:
        raise Untranslatable("copies to tensor memory in a cluster are not read")
    effects = of.effects(of.view(0), False, ir.Proxy.ASYNC)
    effects += of.effects(of.view(1), True, ir.Proxy.ASYNC)
    made: Made = [ir.Asynchronous(effects, TENSOR_CORE)]
    if len(of.views()) > 2:
        made.append(ir.QueueArrive(TENSOR_CORE, of.barrier(2)))
    return made


def _read(of: Operands) -> Made:
    return [ir.Access(of.effects(of.view(0), False, ir.Proxy.GENERIC))]


def _tensor_store(of: Operands) -> Made:
    place = of.values.index(of.views()[0]) if of.views() else 0
    made: Made = [ir.Access(of.effects(of.view(place), True, ir.Proxy.GENERIC))]
    return guarded(_predicate(of, place + 1), made)


def _store(of: Operands) -> Made:
    if len(of.views()) != 1:
        raise Untranslatable("a store has one destination")
    return [ir.Access(of.effects(of.views()[0], True, ir.Proxy.GENERIC))]


def _cluster_barrier(of: Operands) -> Made:
    """The threads of all CTAs; partitions of a `ttg.warp_specialize` have none."""
    relaxed = of.operation.attributes.get("relaxed", "false") != "false"
    order = ir.Order.RELAXED if relaxed else ir.Order.SYNCHRONISING
    count = Constant(of.threads * of.place.ctas)
    return [ir.BarrierSync(ir.Reference(CLUSTER), count, order)]


def _create_map(of: Operands) -> Made:
    """It is made in shared memory, and copied behind a release (`tensormap.cp_fenceproxy`)."""
    release = ir.Fence(ir.FenceKind.TENSORMAP_RELEASE, (ir.Space.GLOBAL,))
    return [ir.Access((of.map_effect(write=True),)), release]


def _acquire_map(of: Operands) -> Made:
    return [ir.Fence(ir.FenceKind.TENSORMAP_ACQUIRE, (ir.Space.GLOBAL,))]


def _fence(of: Operands) -> Made:
    return [ir.Fence(ir.FenceKind.ASYNC, (ir.Space.SHARED,))]


HANDLERS: dict[str, Callable[[Operands], Made]] = {
    "ttng.init_barrier": _init,
    "ttng.inval_barrier": _invalidate,
    "ttng.wait_barrier": _wait,
    "ttng.barrier_expect": _expect,
    "ttng.arrive_barrier": _arrive,
    "ttng.async_tma_copy_global_to_local": _load_tile,
    "ttng.async_tma_gather": _load_tile,
    "ttng.async_tma_copy_local_to_global": _store_tile,
    "ttng.async_tma_reduce": _store_tile,
    "ttng.async_tma_scatter": _store_tile,
    "ttng.async_tma_store_wait": _store_wait,
    "ttg.async_copy_global_to_local": _copy,
    "ttg.async_commit_group": lambda of: [ir.Commit(COPY)],
    "ttg.async_wait": _copy_wait,
    "ttng.async_copy_mbarrier_arrive": _copy_arrive,
    "ttng.warp_group_dot": _group_dot,
    "ttng.warp_group_dot_wait": _group_dot_wait,
    "ttng.tc_gen5_mma": _tensor_core,
    "ttng.tc_gen5_mma_scaled": _tensor_core,
    "ttng.tc_gen5_commit": _tensor_commit,
    "ttng.tmem_copy": _tensor_copy,
    "ttng.tmem_load": _read,
    "ttng.tmem_store": _tensor_store,
    "ttg.local_load": _read,
    "ttg.local_store": _store,
    "ttg.local_gather": _read,
    "ttg.local_scatter": _store,
    "ttng.fence_async_shared": _fence,
    CREATE_MAP: _create_map,
    ACQUIRE_MAP: _acquire_map,
    "ttng.cluster_barrier": _cluster_barrier,
    # The LDS of AMD GPUs: copies go into the queue of `ttg.async_commit_group` as well.
    "amdg.buffer_load_to_local": _copy,
    "amdg.local_load_packed_transposed": _read,
}
