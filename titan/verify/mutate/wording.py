"""Operations in a few words, for tables and arguments."""

from __future__ import annotations

from titan.sync import program as ir
from titan.sync.expression import to_text


def reference_text(reference: ir.Reference) -> str:
    """The name with its index in brackets, as the text of a program writes it."""
    return f"{reference.name}[{to_text(reference.index)}]"


def operation_text(operation: ir.Operation) -> str:
    """One operation in one line."""
    match operation:
        case ir.Access(effects=effects):
            return f"access {_effects(effects)}"
        case ir.Asynchronous(effects=effects, queue=queue):
            return f"start {_effects(effects)}" + (f" on {queue}" if queue else "")
        case ir.Commit(queue=queue):
            return f"commit {queue}"
        case ir.QueueWait(queue=queue, pending=pending, until=until):
            reads = " (reads)" if until is ir.Until.READ else ""
            return f"wait for {queue} <= {to_text(pending)}{reads}"
        case ir.QueueArrive(queue=queue, barrier=barrier):
            return f"arrive on {reference_text(barrier)} after {queue}"
        case ir.Init(barrier=barrier, count=count):
            return f"init {reference_text(barrier)} with {to_text(count)}"
        case ir.Invalidate(barrier=barrier):
            return f"invalidate {reference_text(barrier)}"
        case ir.Arrive(barrier=barrier, transaction=transaction):
            size = to_text(transaction)
            return f"arrive on {reference_text(barrier)}" + (
                f" + {size} bytes" if size != "0" else ""
            )
        case ir.ExpectTransaction(barrier=barrier, bytes=size):
            return f"expect {to_text(size)} bytes on {reference_text(barrier)}"
        case ir.Wait(barrier=barrier, parity=parity):
            return f"wait for {reference_text(barrier)} parity {to_text(parity)}"
        case ir.TokenWait(barrier=barrier):
            return f"wait for the token of {reference_text(barrier)}"
        case ir.Fence(kind=kind, spaces=spaces):
            return f"fence {kind}" + "".join(f" {space}" for space in spaces)
        case ir.PoolTake(pool=pool, amount=amount):
            return f"take {to_text(amount)} of {pool}"
        case ir.PoolGive(pool=pool, amount=amount):
            return f"give {to_text(amount)} of {pool}"
    return _named_or_control(operation)


def _named_or_control(operation: ir.Operation) -> str:
    match operation:
        case ir.BarrierSync(barrier=barrier, threads=threads):
            return f"sync {reference_text(barrier)} of {to_text(threads)}"
        case ir.BarrierArrive(barrier=barrier, threads=threads):
            return f"arrive at {reference_text(barrier)} of {to_text(threads)}"
        case ir.BarrierWait(barrier=barrier):
            return f"wait at {reference_text(barrier)}"
        case ir.Assign(variable=variable, value=value):
            return f"{variable} = {to_text(value)}"
        case ir.Loop(variable=variable, start=start, stop=stop):
            return f"for {variable} in {to_text(start)}..{to_text(stop)}"
        case ir.Branch(condition=condition):
            return f"when {to_text(condition)}"
    raise TypeError(f"no wording for {type(operation).__name__}")


def _effects(effects: tuple[ir.Effect, ...]) -> str:
    texts = [
        f"{'write' if effect.write else 'read'} {effect.buffer}[{to_text(effect.stage)}]"
        + (f" through the {effect.proxy} proxy" if effect.proxy in ir.CACHED else "")
        for effect in effects
    ]
    return ", ".join(texts) or "nothing"
