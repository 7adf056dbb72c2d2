"""a CTA asks for another cluster after it has seen that none is left

## What it means

A CTA has read the answer of a `clusterlaunchcontrol.try_cancel` that failed, and executes another
`clusterlaunchcontrol.try_cancel`.

## Why it is a fault

The behaviour is undefined: the grid has no more clusters to hand out.

## Example

    for (int i = 0; i < tiles; ++i) {       // goes on whatever the answer is
        ask(&answer, &full);
        wait(&full, i & 1);
        if (is_canceled(answer)) work(first_ctaid(answer));
    }

## What to do

Leave the loop at the first answer without a cluster. Requests that are under way by then are no
fault.

## Source

PTX ISA, clusterlaunchcontrol.try_cancel.
"""

CODE = "TTN221"
NAME = "request-after-refusal"
