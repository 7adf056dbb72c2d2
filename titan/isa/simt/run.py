"""Runs a launch of a module: decode, lay out, execute."""

from __future__ import annotations

from titan.foundation.diagnostics.model import Diagnostic, diagnostic
from titan.foundation.diagnostics.wording import quoted, suggestion
from titan.foundation.source.span import Source, whole_file
from titan.isa.ptx.module import Function, Module
from titan.isa.simt.decode import decode
from titan.isa.simt.launch import Launch, Options
from titan.isa.simt.layout import lay_out
from titan.isa.simt.machine import Machine
from titan.isa.simt.native import Native, core
from titan.isa.simt.outcome import Run


def find_entry(module: Module, name: str | None) -> tuple[Function | None, list[Diagnostic]]:
    """The entry called `name`, or the only one."""
    entries = [entry for entry in module.entries() if not entry.declared]
    names = [entry.name for entry in entries]
    place = whole_file(module.path)
    if name is None:
        if len(entries) == 1:
            return entries[0], []
        headline = f"the module has {len(entries)} entries, and none is named"
        helps = tuple(f"there is {quoted(found)}" for found in names[:8])
        return None, [diagnostic("TTN010", headline, place, helps=helps)]
    for entry in entries:
        if entry.name == name:
            return entry, []
    headline = f"the module has no entry {quoted(name)}"
    return None, [diagnostic("TTN010", headline, place, helps=suggestion(name, names))]


def run(
    module: Module,
    launch: Launch,
    options: Options | None = None,
    source: Source | None = None,
    *,
    native: bool | None = None,
) -> tuple[Run | None, list[Diagnostic]]:
    """The run of a launch, or why there is none: no such entry, unknown instructions, a launch that
    does not fit (grid not in whole clusters, too many threads).

    `native` None takes the native machine where it is built, else the Python one, with the same
    result.
    """
    options = Options() if options is None else options
    entry, findings = find_entry(module, launch.entry)
    if entry is None:
        return None, findings
    findings = _check(module, launch)
    if findings:
        return None, findings
    layout = lay_out(module, entry, launch.dynamic_shared_bytes)
    code, findings = decode(module, entry, layout, source)
    if code is None:
        return None, findings
    places = [(p.offset, p.size_bytes) for p in entry.parameters]
    if native or (native is None and core() is not None):
        return Native(code, layout, launch, options).run(places), []
    machine = Machine(code, layout, launch, options)
    machine.load_parameters(places)
    return machine.run(), []


def _check(module: Module, launch: Launch) -> list[Diagnostic]:
    place = whole_file(module.path)
    wrong: list[str] = []
    for axis, count, size in zip("xyz", launch.grid, launch.cluster, strict=True):
        if count < 1 or size < 1 or count % size:
            wrong.append(f"grid of {count} CTAs in {axis} is no multiple of the cluster's {size}")
    if not 1 <= launch.threads <= 1024 or min(launch.block) < 1:
        wrong.append(f"a block of {launch.threads} threads")
    if not 0 <= launch.dynamic_shared_bytes <= 1 << 20:
        wrong.append(f"{launch.dynamic_shared_bytes} bytes of dynamic shared memory")
    if launch.cluster_size > 16:
        wrong.append(f"a cluster of {launch.cluster_size} CTAs")
    return [diagnostic("TTN009", f"the launch has {text}", place) for text in wrong]
