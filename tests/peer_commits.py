"""Random programs in which engines of one CTA arrive at mbarriers of another, which ends."""

from __future__ import annotations

from random import Random

from titan.sync import program as ir
from titan.sync.expression import Constant


def peer_commits(random: Random) -> ir.SyncProgram:
    """An issuer in CTA 0 commits its products to barriers of CTA 1, which waits for some."""
    stages, rounds = random.choice((1, 2)), random.choice((1, 2, 2))
    count = random.choice((1, 1, 1, 2))
    issuer: list[ir.Operation] = []
    waiter: list[ir.Operation] = []
    for turn in range(rounds):
        at = Constant(turn % stages)
        reads = ir.Effect("A", at, proxy=ir.Proxy.ASYNC)
        into = ir.Effect("T", write=True, accumulates=True)
        issuer.append(ir.Asynchronous((reads, into)[: random.choice((1, 2))], "q"))
        for _ in range(random.choice((1, count))):
            issuer.append(ir.QueueArrive("q", ir.Reference("empty", at)))
        if random.random() < 0.4:
            parity = Constant(turn // stages)
            waiter.append(ir.Wait(ir.Reference("empty", at), parity, parity))
    issuer.append(ir.QueueArrive("q", ir.Reference(random.choice(("done", "own", "done")))))
    if random.random() < 0.8:
        waiter.append(ir.Wait(ir.Reference("done"), Constant(0), Constant(0)))
    for turn in range(max(0, rounds - stages), rounds):
        if random.random() < 0.6:
            parity = Constant(turn // stages)
            place = ir.Reference("empty", Constant(turn % stages))
            waiter.append(ir.Wait(place, parity, parity))
    ends = [ir.BarrierSync(ir.Reference("cluster"), Constant(64))]
    meets = random.random() < 0.5
    return ir.SyncProgram(
        "peer_commits",
        "sm_100a",
        (
            ir.Role("issuer", (*issuer, *(ends if meets else ()))),
            ir.Role("waiter", (*waiter, *(ends if meets else ())), cta=1),
        ),
        barriers=(
            ir.Barrier("empty", count, stages, cta=1),
            ir.Barrier("done", 1, cta=1),
            ir.Barrier("own", 1),
        ),
        named_barriers=(ir.NamedBarrier("cluster", scope=ir.Scope.CLUSTER),),
        buffers=(
            ir.Buffer("A", stages, initial=0, cta=1),
            ir.Buffer("T", space=ir.Space.TENSOR, initial=0, cta=1),
        ),
        queues=(ir.Queue("q", grouped=False, pipelined=True),),
        policies=ir.Policies(
            exit_in_flight=random.choice(("refuse", "refuse", "refuse", "allow")),
            unobserved_phase=random.choice(("refuse", "allow")),
            tensor_pipe=random.choice(("listed", "in_order")),
        ),
    )
