"""The JSON Schema of loop files: shape only; `load.py` decides what a file means."""

from __future__ import annotations

from titan.foundation.source.json_schema import (
    FLAG,
    NAME,
    TEXT,
    Schema,
    about,
    document,
    integer,
    items,
    mapping,
    named,
    words,
)
from titan.scheduling.loop.model import DATA, ORDER


def json_schema() -> Schema:
    """The schema of a loop file."""
    use = mapping(
        {
            "cycles": about(integer(1), "cycles that the unit is occupied"),
            "amount": about(integer(1), "units occupied at once"),
            "from": about(integer(), "cycle of the operation at which that begins"),
        },
        ["cycles"],
    )
    used = {"anyOf": [integer(1), use]}
    operation = mapping(
        {
            "uses": about(
                named({"anyOf": [*used["anyOf"], items(used)]}), "units that it occupies"
            ),
            "latency": about(integer(), "cycles until its result is available"),
            "registers": about(integer(), "registers that its result occupies"),
            "warps": about(integer(1, 1024), "warps that run it"),
            "holds": about(named(integer()), "what it holds of memories"),
            "variable_latency": about(FLAG, "its latency is not known in advance"),
            "streaming": about(FLAG, "its result is consumed while it is being produced"),
            "slots": about(integer(1), "maximum number of buffers for its result"),
            "spill": about(integer(), "cycles that spilling its result costs"),
            "issue": about(integer(1), "cycles that a warp is busy to issue it"),
            "inside": about(NAME, "the operation that represents its inner loop"),
        }
    )
    dependence = mapping(
        {
            "from": NAME,
            "to": NAME,
            "delay": about(integer(), "cycles between their starts; the latency by default"),
            "distance": about(integer(), "iterations between them"),
            "kind": words((DATA, ORDER)),
            "blocking": about(FLAG, "the warp waits for it"),
            "hold": about(integer(), "cycles that the value stays alive after its use begins"),
        },
        ["from", "to"],
    )
    unit = mapping({"capacity": integer(1), "source": TEXT}, ["capacity"])
    group = mapping(
        {"warps": integer(1, 1024), "registers": integer(1), "variable_latency": FLAG}, ["warps"]
    )
    shape = mapping(
        {
            "titan": {"const": 1, "description": "version of the language"},
            "loop": about(NAME, "name of the loop"),
            "target": about(NAME, "a machine of TITAN"),
            "machine": about(TEXT, "path of a file that describes the machine"),
            "note": TEXT,
            "warps": about(named(group), "warp groups, in order"),
            "memories": about(named(integer()), "what the loop may use, if less than all"),
            "units": about(
                named({"anyOf": [integer(1), unit]}), ("units that the machine does not have")
            ),
            "operations": named(operation),
            "dependences": items(dependence),
        },
        ["titan", "loop", "operations"],
    )
    return document(
        "TITAN loop",
        "Operations and dependences of a loop; docs/reference/schedule.md explains it.",
        shape,
    )
