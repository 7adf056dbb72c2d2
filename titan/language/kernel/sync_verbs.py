"""Statements of the sync level to operations of the sync program."""

from __future__ import annotations

from dataclasses import replace

from titan.foundation.diagnostics.wording import quoted
from titan.foundation.source.tree import Node, Scalar, Sequence
from titan.language.kernel.clause import Clause
from titan.language.kernel.context import Context
from titan.language.kernel.scope import NameScope, Ref
from titan.language.kernel.table import PACKED_COUNTED
from titan.sync import program as ir
from titan.sync.expression import ONE, ZERO, Constant, Expression, binary

MBARRIER, NAMED, BUFFER, QUEUE, POOL = "barrier", "named barrier", "buffer", "queue", "pool"
_PROXIES = {
    "bulk_load": ir.Proxy.ASYNC,
    "bulk_store": ir.Proxy.ASYNC,
    "mma": ir.Proxy.ASYNC,
    "cp_async": ir.Proxy.GENERIC,
    "lds_dma": ir.Proxy.GENERIC,
}
FENCES = {
    "async": ir.FenceKind.ASYNC,
    "async_release": ir.FenceKind.ASYNC_RELEASE,
    "async_acquire": ir.FenceKind.ASYNC_ACQUIRE,
    "tensormap_release": ir.FenceKind.TENSORMAP_RELEASE,
    "tensormap_acquire": ir.FenceKind.TENSORMAP_ACQUIRE,
    "barrier_init": ir.FenceKind.BARRIER_INIT,
    "constant": ir.FenceKind.CONSTANT,
    "texture": ir.FenceKind.TEXTURE,
    "surface": ir.FenceKind.SURFACE,
}
_FIXED_SPACES = (ir.FenceKind.ASYNC_RELEASE, ir.FenceKind.ASYNC_ACQUIRE)
_WRITING = ("bulk_load", "cp_async", "lds_dma", "store")


class SyncVerbs:
    """Reads the clauses of one role; each method gives the operations of a clause."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.reader = context.reader

    # mbarriers and named barriers

    def lifecycle(self, clause: Clause, scope: NameScope) -> list[ir.Operation]:
        """`init` and `invalidate`."""
        found: list[ir.Operation] = []
        for node in clause.objects:
            pair = self._barrier(node, scope, MBARRIER)
            if pair is None:
                continue
            ref, target = pair
            declared = Constant(self.context.declared.barriers[ref.name].count)
            if clause.verb.name == "init":
                count = self.context.expression(clause, "count", scope, declared)
                if count is not None:
                    found.append(ir.Init(target, count, span=clause.span))
            else:
                found.append(ir.Invalidate(target, span=clause.span))
        return found

    def arrive(self, clause: Clause, scope: NameScope) -> list[ir.Operation]:
        """An arrival for every object, an mbarrier or a named barrier; faults are reported."""
        found: list[ir.Operation] = []
        for node in clause.objects:
            pair = self._barrier(node, scope, MBARRIER, NAMED)
            if pair is None:
                continue
            ref, target = pair
            if self.context.declared.kinds[ref.name] == NAMED:
                self.context.only(clause, NAMED, ("threads", "order"))
                threads = self._threads(clause, ref, scope)
                if threads is not None:
                    order = self._order(clause)
                    found.append(ir.BarrierArrive(target, threads, order, span=clause.span))
                continue
            allowed = ("count", "bytes", "drop", "token", "order", "scope")
            self.context.only(clause, MBARRIER, allowed)
            count = self.context.expression(clause, "count", scope, ONE)
            size = self.context.expression(clause, "bytes", scope, ZERO)
            if count is not None and size is not None:
                found.append(
                    ir.Arrive(
                        target,
                        count,
                        size,
                        self.context.flag(clause, "drop"),
                        self.context.flag(clause, "token"),
                        self._order(clause),
                        self.context.scope(clause, ref.name),
                        span=clause.span,
                    )
                )
        return found

    def expect(self, clause: Clause, scope: NameScope) -> list[ir.Operation]:
        """For every mbarrier the bytes that its phase expects; none if `bytes` is faulty."""
        size = self.context.expression(clause, "bytes", scope)
        pairs = [self._barrier(node, scope, MBARRIER) for node in clause.objects]
        if size is None:
            return []
        return [
            ir.ExpectTransaction(pair[1], size, span=clause.span)
            for pair in pairs
            if pair is not None
        ]

    def sync(self, clause: Clause, scope: NameScope) -> list[ir.Operation]:
        """A sync for every named barrier; one with a faulty thread count is left out (reported)."""
        found: list[ir.Operation] = []
        for node in clause.objects:
            pair = self._barrier(node, scope, NAMED)
            threads = self._threads(clause, pair[0], scope) if pair is not None else None
            if pair is not None and threads is not None:
                order = self._order(clause)
                found.append(ir.BarrierSync(pair[1], threads, order, span=clause.span))
        return found

    def wait(self, clause: Clause, node: Node, scope: NameScope, kind: str) -> list[ir.Operation]:
        """A wait on one mbarrier, named barrier or queue."""
        if kind == QUEUE:
            return self.queue_wait(clause, node, scope)
        pair = self._barrier(node, scope, MBARRIER, NAMED)
        if pair is None:
            return []
        ref, target = pair
        if kind == NAMED:
            self.context.only(clause, NAMED, ("order",))
            return [ir.BarrierWait(target, self._order(clause), span=clause.span)]
        self.context.only(clause, MBARRIER, ("parity", "phase", "token", "order", "scope"))
        reach = self.context.scope(clause, ref.name)
        if self.context.flag(clause, "token"):
            self.context.only(clause, "token", ("token", "order", "scope"))
            return [ir.TokenWait(target, self._order(clause), reach, span=clause.span)]
        if clause.get("parity") is None and clause.get("phase") is None:
            self.reader.error(
                "TTN007",
                f"`wait` on the barrier {quoted(ref.name)} lacks the phase that it waits for",
                clause.span,
                helps=("give `parity`, `phase` or `token: true`",),
            )
            return []
        phase = self.context.expression(clause, "phase", scope)
        default = binary("%", phase, Constant(2)) if phase is not None else None
        parity = self.context.expression(clause, "parity", scope, default)
        if parity is None:
            return []
        if isinstance(parity, Constant) and parity.value not in (0, 1):
            self.reader.error(
                "TTN009",
                f"a parity is 0 or 1, not {parity.value}",
                clause.option_spans["parity"],
                helps=("`phase: k` waits with the parity of k",),
            )
            return []
        return [ir.Wait(target, parity, phase, self._order(clause), reach, span=clause.span)]

    # Queues and pools

    def queue_wait(self, clause: Clause, node: Node, scope: NameScope) -> list[ir.Operation]:
        """A wait for a queue; TTN017 where both `leaving` and `pending` are given."""
        self.context.only(clause, QUEUE, ("leaving", "pending", "until"))
        ref = self.context.reference(node, scope, clause.what, QUEUE)
        if clause.get("leaving") is not None and clause.get("pending") is not None:
            span = clause.option_spans["pending"]
            self.reader.error("TTN017", "`leaving` and `pending` are the same option", span)
        pending = self.context.expression(clause, "pending", scope, ZERO)
        leaving = self.context.expression(clause, "leaving", scope, pending)
        until = ir.Until(self.context.word(clause, "until", "done"))
        if ref is None or leaving is None:
            return []
        return [ir.QueueWait(ref.name, leaving, until, span=clause.span)]

    def commit(self, clause: Clause, scope: NameScope) -> list[ir.Operation]:
        """A commit of every queue, or with `arrives` an arrival once its operations are done."""
        found: list[ir.Operation] = []
        arrives = clause.get("arrives")
        pair = self._barrier(arrives, scope, MBARRIER) if arrives is not None else None
        count = self.context.expression(clause, "count", scope, ONE)
        if arrives is None and clause.get("count") is not None:
            self.reader.error("TTN007", "`count` goes with `arrives`", clause.option_spans["count"])
        for node in clause.objects:
            ref = self.context.reference(node, scope, clause.what, QUEUE)
            if ref is None:
                continue
            if pair is not None and not self.context.declared.queues[ref.name].ordered:
                headline = f"an arrival has no place in the queue {quoted(ref.name)}"
                notes = ("its operations finish in any order, so that none is behind all others",)
                self.reader.error("TTN017", headline, ref.span, notes=notes)
            if pair is not None and count is not None:
                found.append(ir.QueueArrive(ref.name, pair[1], count, span=clause.span))
            elif arrives is None:
                if not self.context.declared.queues[ref.name].grouped:
                    headline = f"the queue {quoted(ref.name)} has no groups to commit"
                    self.reader.error("TTN017", headline, ref.span)
                found.append(ir.Commit(ref.name, span=clause.span))
        return found

    def pool(self, clause: Clause, scope: NameScope) -> list[ir.Operation]:
        """`take` and `give`."""
        found: list[ir.Operation] = []
        amount = self.context.expression(clause, "amount", scope)
        for node in clause.objects:
            ref = self.context.reference(node, scope, clause.what, POOL)
            name = self.context.instance(ref) if ref is not None else None
            if name is None or amount is None:
                continue
            if clause.verb.name == "take":
                found.append(ir.PoolTake(name, amount, span=clause.span))
            else:
                found.append(ir.PoolGive(name, amount, span=clause.span))
        return found

    def fence(self, clause: Clause, scope: NameScope) -> list[ir.Operation]:
        """A fence of the named kind; TTN017 for spaces where the kind fixes them."""
        del scope
        word = self.reader.choice(clause.objects[0], FENCES, "the fence")
        spaces = [
            self.reader.choice(node, [space.value for space in ir.Space], "a space")
            for node in self.context.nodes(clause.get("spaces"))
        ]
        if word is None or None in spaces:
            return []
        if spaces and FENCES[word] in _FIXED_SPACES:
            headline = f"the spaces of the fence {quoted(word)} are fixed"
            self.reader.error("TTN017", headline, clause.option_spans["spaces"])
        named = tuple(ir.Space(space) for space in spaces if space is not None)
        return [ir.Fence(FENCES[word], named, span=clause.span)]

    # Memory

    def access(self, clause: Clause, scope: NameScope) -> list[ir.Operation]:
        """`load`, `store` and `access`."""
        verb = clause.verb.name
        proxy = ir.Proxy(self.context.word(clause, "proxy", "generic"))
        effects: list[ir.Effect] = []
        if verb == "access":
            self._no_objects(clause)
            effects += self._effects(clause, clause.get("reads"), scope, False, proxy)
            effects += self._effects(clause, clause.get("writes"), scope, True, proxy)
        for node in clause.objects if verb != "access" else ():
            effects += self._effects(clause, node, scope, verb == "store", proxy)
        if not self._cached_as_it_can_be(clause, proxy, effects):
            return []
        return [ir.Access(tuple(effects), span=clause.span, label=verb)] if effects else []

    def _cached_as_it_can_be(
        self, clause: Clause, proxy: ir.Proxy, effects: list[ir.Effect]
    ) -> bool:
        """Only the surface proxy writes, and cached proxies lead to global memory alone."""
        if proxy not in ir.CACHED:
            return True
        span = clause.option_spans["proxy"]
        for effect in effects:
            name = effect.buffer.partition("@")[0]
            if effect.write and proxy is not ir.Proxy.SURFACE:
                self.reader.error("TTN017", f"nothing is written through the {proxy} proxy", span)
                return False
            if self.context.declared.buffers[name].space is not ir.Space.GLOBAL:
                headline = f"the {proxy} proxy leads to global memory, and {quoted(name)} is not"
                self.reader.error("TTN017", headline, span)
                return False
        return True

    def asynchronous(self, clause: Clause, scope: NameScope) -> list[ir.Operation]:
        """`async`, `bulk_load`, `bulk_store`, `mma`, `cp_async` and `lds_dma`."""
        verb = clause.verb.name
        if verb == "async":
            self._no_objects(clause)
            proxy = ir.Proxy(self.context.word(clause, "proxy", "async"))
        else:
            proxy = _PROXIES[verb]
        ctas = self._multicast(clause, scope)
        objects: list[ir.Effect] = []
        for node in clause.objects:
            objects += self._effects(clause, node, scope, verb in _WRITING, proxy, ctas)
        others: list[ir.Effect] = []
        for name, write in (("reads", False), ("writes", True), ("from", False), ("to", True),
                            ("into", True)):  # fmt: skip
            others += self._effects(clause, clause.get(name), scope, write, proxy)
        tensormap = ir.Proxy.TENSORMAP
        if verb == "mma":
            others = [replace(effect, accumulates=effect.write) for effect in others]
        others += self._effects(clause, clause.get("descriptor"), scope, False, tensormap)
        completes = self._completions(clause, scope, objects, ctas)
        queue = self._queue_of(clause, scope)
        chunks = clause.get("chunks")
        instalments = 1
        if chunks is not None:
            instalments = self.context.terms.constant(chunks, scope, "`chunks`", 1, 16) or 1
        if completes is None or queue is False:
            return []
        effects = (*objects, *others)
        if not effects and not completes:
            if self.reader.ok:
                self.reader.error("TTN007", f"{clause.what} touches nothing", clause.span)
            return []
        queue_name = queue if isinstance(queue, str) else None
        if completes and queue_name and self.context.declared.queues[queue_name].grouped:
            headline = f"{clause.what} completes on a barrier and gathers in a group"
            helps = ("a copy is waited for by its barrier or by its group",)
            self.reader.error("TTN017", headline, clause.option_spans["completes"], helps=helps)
            return []
        return [
            ir.Asynchronous(
                effects, queue_name, tuple(completes), instalments, span=clause.span, label=verb
            )
        ]

    def reads_of_engine(self, clause: Clause, scope: NameScope) -> tuple[ir.Effect, ...]:
        """`reads` of an `issue`: buffers that belong to no ring."""
        node = clause.get("reads")
        found = self._effects(clause, node, scope, False, ir.Proxy.ASYNC)
        for effect in found:
            name = effect.buffer.partition("@")[0]
            owner = self.context.declared.ring_of.get(name)
            if owner is not None and node is not None:
                headline = f"{quoted(name)} belongs to the ring {quoted(owner)}"
                helps = ("a stage of a ring is an operand: `issue: mma(A[t])`",)
                self.reader.error("TTN017", headline, node.span, helps=helps)
        return tuple(found)

    def _no_objects(self, clause: Clause) -> None:
        if clause.objects:
            headline = f"{clause.what} takes `reads` and `writes`"
            self.reader.error("TTN008", headline, clause.objects[0].span)

    def _queue_of(self, clause: Clause, scope: NameScope) -> str | bool | None:
        """The queue; None where there is none, False where it is faulty."""
        node = clause.get("queue")
        if node is None:
            needs = clause.verb.name in ("cp_async", "lds_dma", "bulk_store")
            if needs:
                self.reader.error(
                    "TTN007",
                    f"{clause.what} lacks the queue that it is waited for by",
                    clause.span,
                    helps=("declare one under `queues` and give `queue: name`",),
                )
            return False if needs else None
        ref = self.context.reference(node, scope, "`queue`", QUEUE)
        return ref.name if ref is not None else False

    def _multicast(self, clause: Clause, scope: NameScope) -> tuple[int, ...]:
        """The CTAs that a multicast load writes; empty: those that the references name."""
        node = clause.get("multicast")
        if node is None:
            return ()
        if isinstance(node, Scalar) and node.plain and node.text == "all":
            return tuple(range(self.context.ctas))
        found = []
        for item in self.context.nodes(node):
            most = self.context.ctas - 1
            cta = self.context.terms.constant(item, scope, "a CTA of `multicast`", 0, most)
            if cta is not None:
                found.append(cta)
        return tuple(dict.fromkeys(found))

    def _effects(
        self,
        clause: Clause,
        node: Node | None,
        scope: NameScope,
        write: bool,
        proxy: ir.Proxy,
        ctas: tuple[int, ...] = (),
    ) -> list[ir.Effect]:
        """The accesses that a memory reference or a list of them represents."""
        if node is None:
            return []
        if isinstance(node, Sequence):
            found = []
            for item in node:
                found += self._effects(clause, item, scope, write, proxy, ctas)
            return found
        ref = self.context.terms.reference(node, scope, clause.what)
        if ref is None:
            return []
        if self.context.declared.kinds.get(ref.name) != BUFFER:
            self.context.wrong_kind(ref, (BUFFER,))
            return []
        space = self.context.declared.buffers[ref.name].space
        if space not in (ir.Space.SHARED, ir.Space.GLOBAL) and proxy not in ir.CACHED:
            proxy = ir.Proxy.GENERIC  # tensor memory and registers have one path only
        tile = ref.tile
        if tile is None and clause.get("tile") is not None:
            tile = self.context.expression(clause, "tile", scope)
        effects = []
        for cta in ctas or (None,):
            meant = ref if cta is None else _in_cta(ref, cta)
            name = self.context.instance(meant)
            if name is not None:
                stage = self.context.index(ref)
                effect = ir.Effect(name, stage, write, tile, ref.part, proxy)
                effects.append(self._reducing(clause, effect, space) if write else effect)
        return effects

    def _reducing(self, clause: Clause, effect: ir.Effect, space: ir.Space) -> ir.Effect:
        """The effect as the reduction that the clause says it is, if it says so."""
        if clause.get("reduces") is None:
            if clause.get("scope") is not None:
                span = clause.option_spans["scope"]
                self.reader.error("TTN007", "`scope` goes with `reduces`", span)
            return effect
        if effect.proxy not in ir.REDUCING or space not in (ir.Space.SHARED, ir.Space.GLOBAL):
            headline = "reductions are made in shared and global memory, by the generic or async "
            self.reader.error("TTN017", f"{headline}proxy", clause.option_spans["reduces"])
            return effect
        reach = "cluster"
        if any(key.name == "scope" for key in clause.verb.options):
            reach = self.context.word(clause, "scope", reach)
        return replace(
            effect, reduction=self.context.word(clause, "reduces", ""), reach=ir.Scope(reach)
        )

    def _completions(
        self, clause: Clause, scope: NameScope, effects: list[ir.Effect], ctas: tuple[int, ...]
    ) -> list[ir.Completion] | None:
        """What the operation completes; None where that is faulty."""
        node = clause.get("completes")
        if node is None:
            if clause.get("bytes") is not None:
                span = clause.option_spans["bytes"]
                self.reader.error("TTN007", "`bytes` goes with `completes`", span)
            if clause.verb.name == "bulk_load" and clause.get("queue") is None:
                self.reader.error(
                    "TTN007",
                    "`bulk_load` lacks the barrier that it completes",
                    clause.span,
                    helps=("give `completes: barrier[stage]`, or a `queue`",),
                )
                return None
            return []
        size = self.context.expression(clause, "bytes", scope)
        if size is None and clause.get("bytes") is None:
            size = self._bytes_of(clause, effects, len(ctas) or 1)
        if size is None:
            return None
        found: list[ir.Completion] = []
        for item in self.context.nodes(node):
            ref = self.context.reference(item, scope, "`completes`", MBARRIER)
            for cta in ctas or (None,) if ref is not None else ():
                assert ref is not None
                name = self.context.instance(ref if cta is None else _in_cta(ref, cta))
                if name is not None:
                    target = ir.Reference(name, self.context.index(ref))
                    found.append(ir.Completion(target, size))
        return found

    def _bytes_of(self, clause: Clause, effects: list[ir.Effect], copies: int) -> Expression | None:
        """Bytes of what is written, for one of its `copies`, where the declarations fix them."""
        total = 0
        for effect in effects:
            buffer = self.context.declared.buffers[effect.buffer.partition("@")[0]]
            instalments = buffer.parts if effect.part is not None else 1
            total += self._counted(buffer.name, buffer.bytes_per_stage // instalments)
        if total == 0:
            self.reader.error(
                "TTN007",
                f"the bytes that {clause.what} completes are not known",
                clause.span,
                helps=("give `bytes`, or `tile` and `dtype` of the buffer",),
            )
            return None
        return Constant(total // copies)

    def _counted(self, buffer: str, filled: int) -> int:
        """What a copy that fills so many bytes of a buffer completes on its barrier."""
        maps = self.context.declared.tensor_maps.values()
        counted = {PACKED_COUNTED.get(map_.dtype, (1, 1)) for map_ in maps if map_.buffer == buffer}
        times, parts = counted.pop() if len(counted) == 1 else (1, 1)
        return filled * times // parts

    # Shared parts

    def _barrier(
        self, node: Node, scope: NameScope, *kinds: str
    ) -> tuple[Ref, ir.Reference] | None:
        ref = self.context.reference(node, scope, "this", *kinds)
        name = self.context.instance(ref) if ref is not None else None
        if ref is None or name is None:
            return None
        return ref, ir.Reference(name, self.context.index(ref))

    def _threads(self, clause: Clause, ref: Ref, scope: NameScope) -> Expression | None:
        declared = self.context.declared.threads.get(ref.name, 0)
        default = Constant(declared) if declared else None
        if default is None and self.context.declared.named[ref.name].scope is ir.Scope.CLUSTER:
            default = Constant(self.context.declared.cluster_threads)
        if default is None and clause.get("threads") is None:
            headline = f"how many threads take part in {quoted(ref.name)} is not given"
            helps = ("give `threads` here or where it is declared",)
            self.reader.error("TTN007", headline, clause.span, helps=helps)
            return None
        return self.context.expression(clause, "threads", scope, default)

    def _order(self, clause: Clause) -> ir.Order:
        return ir.Order(self.context.word(clause, "order", "synchronising"))


def _in_cta(ref: Ref, cta: int) -> Ref:
    return Ref(ref.name, ref.span, ref.index, ref.part, Constant(cta), ref.tile)
