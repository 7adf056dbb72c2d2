"""Whether what an engine completes may have to publish more than the engine's own operations.

A completed bulk copy publishes what it has written, an arrival of an engine (tcgen05.commit,
cp.async.mbarrier.arrive) what it tracks, and neither what its issuer did or knew before
(PTX, "Asynchronous Operations in Program Order"). Where the issuer arrives at the same barrier
anyway, after all that it has to publish and before it issues, the arrival publishes the rest, and
it makes no difference. `relays` says of a program whether that is so everywhere.

The argument. Say that every other synchronisation carries visibility (relaxed arrivals are for
titan/sync/weak.py to see), and that every issue that completes or arrives on barrier b comes
after an arrival of the same agent at b, without an access, a fence or a wait in between. Then
whatever is ordered is visible. By induction over a run: the flight takes part in the phase of that
arrival, or in a later one. In the first case what its issuer knew is what the arrival published to
that phase. In the second, every arrival at the
later phase is after the completion of the earlier one, or it could have fallen into that
(titan/engines/happens_before/phases.py), so it publishes what its agent had learnt of it, by
induction all of it. What an agent issues before it has accessed, fenced or learnt anything has
nothing to publish.

An arrival that follows the issue, with no wait in between, does as well: the agent cannot know that
the phase of the flight is complete, so the arrival falls into that phase, too.
"""

from __future__ import annotations

from collections import defaultdict

from titan.sync import program as ir
from titan.sync.expression import Constant, names_of
from titan.sync.parts import effects_of

# What an agent has published to each barrier since it last had something new to publish; None: it
# has had nothing to publish so far.
Published = frozenset[ir.Reference] | None
_NOTHING_PUBLISHED: frozenset[ir.Reference] = frozenset()
_LEARNING = (ir.Wait, ir.TokenWait, ir.BarrierSync, ir.BarrierWait, ir.QueueWait)


def relays(program: ir.SyncProgram) -> bool:
    """Whether some completion may have to carry what its issuer knew."""
    shared = _shared_storages(program)
    return any(_Role(program, shared).relays(role) for role in program.roles)


def _shared_storages(program: ir.SyncProgram) -> set[str]:
    """Memory that more than one agent uses."""
    storages = {buffer.name: buffer.storage or buffer.name for buffer in program.buffers}
    users: dict[str, set[str]] = defaultdict(set)
    crowds: set[str] = set()
    for role in program.roles:
        for operation in ir.walk(role.body):
            for effect in effects_of(operation):
                storage = storages[effect.buffer]
                users[storage].add(role.name)
                if role.agents > 1:
                    crowds.add(storage)
    return crowds | {storage for storage, roles in users.items() if len(roles) > 1}


class _Role:
    """The control flow of one role, with what it has published so far."""

    def __init__(self, program: ir.SyncProgram, shared: set[str]) -> None:
        self._storages = {buffer.name: buffer.storage or buffer.name for buffer in program.buffers}
        self._shared = shared
        self._outer = {parameter.name: parameter.per for parameter in program.parameters}
        self._found = False
        self._pending: set[ir.Reference] = (
            set()
        )  # barriers of flights that an arrival may yet cover

    def relays(self, role: ir.Role) -> bool:
        self._block(role.body, None)
        return self._found

    def _block(self, block: ir.Block, published: Published) -> Published:
        for operation in block:
            if isinstance(operation, (*_LEARNING, ir.Loop, ir.Branch, ir.Assign)):
                self._settle()
            published = self._operation(operation, published)
        self._settle()
        return published

    def _settle(self) -> None:
        """No arrival has covered what is pending."""
        self._found = self._found or bool(self._pending)
        self._pending.clear()

    def _operation(self, operation: ir.Operation, published: Published) -> Published:
        match operation:
            case ir.Loop():
                return self._loop(operation, published)
            case ir.Branch(then=then, otherwise=otherwise):
                return _both(self._block(then, published), self._block(otherwise, published))
            case ir.Assign(variable=variable):
                return self._forget(published, variable)
            case ir.Arrive(count=count) if _counts(count):
                self._pending.discard(operation.barrier)
                return published if published is None else published | {operation.barrier}
            case ir.Asynchronous(completes=completes):
                if published is not None:
                    self._pending |= {completion.barrier for completion in completes} - published
                return published
            case ir.QueueArrive(barrier=barrier):
                if published is not None:
                    self._pending |= {barrier} - published
                return published
            case ir.Access(effects=effects):
                shared = any(self._storages[effect.buffer] in self._shared for effect in effects)
                return _NOTHING_PUBLISHED if shared else published
        return _NOTHING_PUBLISHED if isinstance(operation, (*_LEARNING, ir.Fence)) else published

    def _loop(self, loop: ir.Loop, published: Published) -> Published:
        """What holds at every test of the loop."""
        published = self._forget(published, loop.variable)
        while True:
            turned = self._forget(self._block(loop.body, published), loop.variable)
            again = _both(published, turned)
            if again == published:
                return published
            published = again

    def _forget(self, published: Published, variable: str) -> Published:
        """A variable changes: a barrier that it chose is another one now."""
        if published is None:
            return None
        return frozenset(
            barrier
            for barrier in published
            if all(
                variable not in (name, self._outer.get(name)) for name in names_of(barrier.index)
            )
        )


def _counts(count: object) -> bool:
    return isinstance(count, Constant) and count.value > 0


def _both(one: Published, other: Published) -> Published:
    """What holds on either way."""
    if one is None or other is None:
        return other if one is None else one
    return one & other
