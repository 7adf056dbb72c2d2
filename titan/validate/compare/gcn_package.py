"""All checks of the machine code of one AMD kernel, in one call.

The control flow is within the language of the sync program, no copy to LDS follows too closely what
it reads, registers and LDS are within the manifest, nothing is spilled.
"""

from __future__ import annotations

from collections.abc import Mapping

from titan.codegen.tile.manifest import Manifest
from titan.codegen.tile.model import TileProgram
from titan.isa.gcn.hazards import hazards
from titan.isa.gcn.listing import NotUnderstood, read
from titan.sync import program as ir
from titan.validate.compare.gcn_check import compare, language_of
from titan.validate.compare.gcn_compile import over_budget
from titan.validate.compare.toolchain import CompiledKernel


def faults(
    compiled: CompiledKernel,
    manifest: Manifest,
    tile: TileProgram,
    program: ir.SyncProgram,
    kinds: Mapping[str, str],
) -> list[str]:
    """What is wrong, one line each; nothing where all is well.

    `program` holds the computations; `kinds` are those of its queues.
    """
    try:
        functions = read(compiled.text)
        function = functions.get(str(manifest["entry"]))
        if function is None:
            return ["the code object lacks the kernel"]
        language = language_of(program, tile, kinds, manifest["copies"])
        found = [
            f"{item.text}{f' (at {item.address:x})' if item.address else ''}"
            for item in compare(function, language)
        ]
        found += hazards(function)
    except (NotUnderstood, ValueError) as error:
        return [str(error)]
    resources = manifest["resources"]
    limits = resources["registers_per_thread_max"], resources["shared_bytes"]
    return found + over_budget(compiled.figures, *limits)
