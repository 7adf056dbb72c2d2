"""What clang 22 emits for atomics and fences of LLVM IR, cut out between two marks.

Other operations are in flight at the first mark, so that no wait is left out because nothing is
pending. LLVM IR needs no HIP headers.
"""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path

from titan.litmus.language.ast import Scope, Semantics

CLANG = "clang-22"
ORDERS = {
    Semantics.RELAXED: "monotonic",
    Semantics.ACQUIRE: "acquire",
    Semantics.RELEASE: "release",
    Semantics.ACQ_REL: "acq_rel",
    Semantics.SC: "seq_cst",
}
SCOPES = {Scope.WAVEFRONT: "wavefront", Scope.CTA: "workgroup", Scope.GPU: "agent", Scope.SYS: ""}
KINDS = {
    "load": (Semantics.RELAXED, Semantics.ACQUIRE, Semantics.SC),
    "store": (Semantics.RELAXED, Semantics.RELEASE, Semantics.SC),
    "atomic": tuple(ORDERS),
    "fence": (Semantics.ACQUIRE, Semantics.RELEASE, Semantics.ACQ_REL, Semantics.SC),
}
Row = tuple[str, Semantics, Scope, bool]
ROWS: tuple[Row, ...] = tuple(
    (kind, order, scope, lds)
    for kind, orders in KINDS.items()
    for order in orders
    for scope in SCOPES
    for lds in ((False,) if kind == "fence" else (False, True))
)
_HEAD = re.compile(r'^"?row(\d+)"?:')
_BITS = re.compile(r"(?: (?:sc0|sc1|glc))+$")
_WATCHED = ("global_", "ds_", "buffer_", "s_waitcnt", "flat_")


def module() -> str:
    """LLVM IR with a kernel for each row."""
    functions = "\n".join(_function(number, row) for number, row in enumerate(ROWS))
    attributes = 'attributes #0 = { nounwind "amdgpu-flat-work-group-size"="1,1024" }'
    return f"{functions}\n{attributes}\n!0 = !{{}}\n"


def _function(number: int, row: Row) -> str:
    kind, order, scope, lds = row
    pointer = "ptr addrspace(3)" if lds else "ptr addrspace(1)"
    name = f' syncscope("{SCOPES[scope]}")' if SCOPES[scope] else ""
    suffix = f"{name} {ORDERS[order]}"
    body = {
        "load": f"%v = load atomic i32, {pointer} %p{suffix}, align 4",
        "store": f"store atomic i32 1, {pointer} %p{suffix}, align 4",
        "atomic": f"%v = atomicrmw add {pointer} %p, i32 1{suffix}, "
        "!amdgpu.no.fine.grained.memory !0, !amdgpu.no.remote.memory !0",
        "fence": f"fence{suffix}",
    }[kind]
    value = "%v" if kind in ("load", "atomic") else "7"
    return f"""define amdgpu_kernel void @row{number}({pointer} %p, ptr addrspace(1) %a,
    ptr addrspace(3) %l, ptr addrspace(1) %q) #0 {{
  %next = getelementptr i32, {pointer} %p, i32 1
  store i32 5, {pointer} %next
  store i32 3, ptr addrspace(1) %a
  store i32 4, ptr addrspace(3) %l
  call void asm sideeffect "; BEGIN", "~{{memory}}"()
  {body}
  call void asm sideeffect "; END", "~{{memory}}"()
  store i32 {value}, ptr addrspace(1) %q
  ret void
}}"""


@cache
def emitted(target: str, folder: Path) -> dict[Row, tuple[tuple[str, ...], str, tuple[str, ...]]]:
    """For each row: instructions before the access, its cache bits, instructions behind it.

    A fence has all of its instructions before.
    """
    source = folder / "rows.ll"
    source.write_text(module(), encoding="utf-8")
    command = [CLANG, "-x", "ir", "-target", "amdgcn-amd-amdhsa", f"-mcpu={target}", "-nogpulib",
               "-Wno-override-module", "-O2", "-S", str(source), "-o", "-"]  # fmt: skip
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found: dict[Row, tuple[tuple[str, ...], str, tuple[str, ...]]] = {}
    row: Row | None = None
    lines: list[str] | None = None
    for line in text.splitlines():
        if match := _HEAD.match(line):
            row = ROWS[int(match.group(1))]
        elif line.strip() == "; BEGIN":
            lines = []
        elif line.strip() == "; END" and row is not None and lines is not None:
            found[row] = _cut(lines, row[0])
            lines = None
        elif lines is not None:
            code = " ".join(line.partition(";")[0].split())
            lines += [code] if code.startswith(_WATCHED) else []
    return found


def _cut(lines: list[str], kind: str) -> tuple[tuple[str, ...], str, tuple[str, ...]]:
    if kind == "fence":
        return tuple(lines), "", ()
    (place,) = [n for n, line in enumerate(lines) if line.startswith(("global_", "ds_"))]
    bits = _BITS.search(lines[place])
    text = bits.group().strip() if bits is not None else ""
    if kind == "atomic":  # the bit that asks for the old value says nothing of scopes
        text = text.replace("glc", "").replace("sc0", "").strip()
    return tuple(lines[:place]), text, tuple(lines[place + 1 :])
