"""The JSON Schema of launch files, written or recorded; shape only."""

from __future__ import annotations

from titan.foundation.source.json_schema import (
    FLAG,
    TEXT,
    Schema,
    about,
    document,
    integer,
    items,
    mapping,
    one_or_list,
)
from titan.frontends.ptx.launch import GRID_MAX, PARAMETERS_MAX, SHARED_MAX
from titan.frontends.ptx.tensor_maps import BOX_MAX, INTERLEAVES, RANK_MAX, SWIZZLES, TYPE_NUMBERS

_BYTES: Schema = {"type": ["string", "integer"], "description": "hexadecimal bytes"}


def json_schema() -> Schema:
    """The schema of a launch file; metadata of Triton have a form of their own."""
    ranks = {"minItems": 1, "maxItems": RANK_MAX}
    tensor_map = mapping(
        {
            "dimensions": {**items(integer(1)), **ranks, "description": "innermost first"},
            "box": {**items(integer(1, BOX_MAX)), **ranks, "description": "of one copy"},
            "data_type": {"enum": [*TYPE_NUMBERS, *range(16)]},
            "swizzle": {"enum": [*SWIZZLES, *range(7)]},
            "interleave": {"enum": [*INTERLEAVES, *range(3)]},
            "stride_bytes": items(integer()),
            "element_strides": items(integer(1, 8)),
            "serial": integer(),
            "rank": integer(1, RANK_MAX),
            "base": integer(),
            "promotion": {},
            "fill": {},
        },
        ["dimensions", "box"],
    )
    described: Schema = {"$ref": "#/$defs/tensor_map"}
    chosen = {"anyOf": [integer(), described]}
    given = mapping(
        {"bytes": _BYTES, "size": integer(1), "map": chosen, "tensor_map": chosen,
         "maps": {"type": "object", "additionalProperties": chosen},
         "at": about({"type": "object"}, "what is known of a structure, by offset in bytes"),
         "pointer": about({"type": "object"}, "what is known of the memory that it leads to")}
    )  # fmt: skip
    forms = [{"type": "number"}, {"enum": ["pointer", "unknown"]}, given]
    parameter: Schema = {"$ref": "#/$defs/parameter"}
    allocation = mapping({"start": integer(), "bytes": integer()}, ["start", "bytes"])
    extents = {"minItems": 1, "maxItems": 3}
    shape = mapping(
        {
            "launch": {"description": "version, or a name"},
            "call": {"description": "of a recorded launch: the call of the driver"},
            "entry": about(TEXT, "kernel of the module"),
            "grid": {**_counted(GRID_MAX, extents), "description": "CTAs along x, y, z"},
            "block": {**_counted(1024, extents), "description": "threads along x, y, z"},
            "cluster": {**_counted(16, extents), "description": "CTAs of a cluster along x, y, z"},
            "shared": about(integer(0, SHARED_MAX), "dynamic shared memory in bytes"),
            "dynamic_shared": about(integer(0, SHARED_MAX), "dynamic shared memory in bytes"),
            "cancelled": about(integer(0, GRID_MAX), "clusters that each cluster obtains"),
            "cooperative": about(FLAG, "all CTAs are there at once"),
            "parameters": {
                "description": "by position, or by position or name",
                "anyOf": [
                    items(parameter, 0, PARAMETERS_MAX),
                    {"type": "object", "additionalProperties": parameter},
                ],
            },
            "tensor_maps": items(described),
            "allocations": items({"anyOf": [allocation, items(integer(), 2, 2)]}),
        }
    )
    made = document(
        "TITAN launch", "A launch of a kernel; docs/how-to/verify_real_code.md explains it.", shape
    )
    return {**made, "$defs": {"tensor_map": tensor_map, "parameter": {"anyOf": forms}}}


def _counted(most: int, extents: Schema) -> Schema:
    one, several = one_or_list(integer(1, most))["anyOf"]
    return {"anyOf": [one, {**several, **extents}]}
