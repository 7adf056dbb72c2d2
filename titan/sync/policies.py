"""The words of the policies: readings of the hardware contract on which sources differ.

The first word of each is the default of a kernel file. What they mean is documented where they are
the fields of a sync program (`Policies` in `titan/sync/program.py`).
"""

from __future__ import annotations

from typing import Literal, get_args

FenceRule = Literal["writer", "path"]
BarrierInit = Literal["fence", "assumed"]
Permission = Literal["refuse", "allow"]
TensorReading = Literal["order", "fence"]
PipeOrder = Literal["listed", "in_order"]

POLICY_WORDS: dict[str, tuple[str, ...]] = {
    "fence_rule": get_args(FenceRule),
    "war_fence": ("true", "false"),
    "barrier_init": get_args(BarrierInit),
    "exit_in_flight": get_args(Permission),
    "unobserved_phase": get_args(Permission),
    "tensor": get_args(TensorReading),
    "tensor_pipe": get_args(PipeOrder),
}
