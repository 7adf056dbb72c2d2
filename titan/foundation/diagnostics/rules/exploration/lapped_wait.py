"""a parity wait that means another phase than the one it sees

## What it means

A parity wait is polled when the barrier is neither in the phase meant nor just past it. It then
passes on an older phase, or misses the one meant because the barrier has gone round. In compiled
code, a wait by a state that no arrival at this mbarrier has given: that of another one, of one that
was at the place before it was initialised again, or a number.

## Why it is a fault

A parity cannot distinguish phase `k` from phase `k + 2`. The wait passes too early and the data is
stale, or the waiter sleeps forever. A deeper ring does not help: the slowest of several waiters is
lapped.

## Example

    roles:
      consumer: {warps: 2}             # both wait on `full`
    barriers:
      empty: {count: 1}                # but only warp 0 arrives; warp 1 can fall two phases behind

## What to do

Let every agent that waits on the full barrier take part in the arrival that allows the next phase,
or wait with the state form.

## Source

PTX ISA, mbarrier.test_wait: waits are defined for the current and the immediately preceding phase
only, and for states that arrivals at the same object have given.
"""

CODE = "TTN212"
NAME = "lapped-wait"
