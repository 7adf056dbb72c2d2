"""Kernel files to start from: commented, and verified for any number of tiles.

Where the target has bulk copies and mbarriers, roles form a chain: the first fills a ring from
global memory, each of the next reads the ring before it and fills the one after it, the last only
reads. Other targets get a loop without roles, copies ahead of their use by the depth.
"""

from __future__ import annotations

from dataclasses import dataclass

CHAINED = ("sm_90a", "sm_100a")  # that rings are lowered for, warp-specialised
COPIED_AHEAD = {"sm_80": "cp_async", "gfx90a": "lds_dma", "gfx942": "lds_dma", "gfx950": "lds_dma"}
TARGETS = (*CHAINED, *COPIED_AHEAD)
ROLES_MAX = 6
HEADER = """\
# {what}
# titan verify {name}.yaml      decides every interleaving, for any number of tiles
# titan verify {name}.yaml --html {name}.html      the same as a page
# docs/reference/language.md has all keys and verbs; `titan lsp` shows them in an editor.
titan: 1
kernel: {name}
target: {target}
"""


@dataclass(frozen=True, slots=True)
class Wishes:
    """The kernel to write: `roles` in the order in which data passes through them.

    `rings[i]` leads from role i to role i + 1.
    """

    name: str
    target: str
    depth: int = 4
    roles: tuple[str, ...] = ("producer", "consumer")
    rings: tuple[str, ...] = ("operands",)


def kernel_text(wishes: Wishes) -> str:
    """The file. Raises KeyError for a target without a form."""
    if wishes.target in CHAINED:
        return _chain(wishes)
    return _copied_ahead(wishes, COPIED_AHEAD[wishes.target])


def _chain(wishes: Wishes) -> str:
    last = len(wishes.roles) - 1
    what = f"A pipeline of {last + 1} roles: {' -> '.join(wishes.roles)}."
    lines = [
        *HEADER.format(what=what, name=wishes.name, target=wishes.target).splitlines(),
        "sizes:",
        "  tiles: any                  # a parameter: the verdict holds for every number of tiles",
        f"  depth: {wishes.depth:<21}# stages of each ring; `2..4` gives a verdict for each",
        "buffers:                      # one stage of each; a ring of depth stages has so many",
    ]
    for ring in wishes.rings:
        lines.append(f"  {ring}_data: {{tile: [64, 64], dtype: bf16, swizzle: 128B}}")
    lines.append("rings:                        # `ring[t]` is the slot of iteration t; stage and")
    lines.append("                              # phase follow from t, the barriers from the roles")
    for number, ring in enumerate(wishes.rings):
        stores = ", transport: store" if number else ""
        lines.append(f"  {ring}: {{buffers: [{ring}_data], depth: depth{stores}}}")
    lines.append("roles:")
    for number, role in enumerate(wishes.roles):
        size = "warps: 1" if number == 0 else "warpgroups: 1"
        does = "starts bulk copies" if number == 0 else "computes"
        declared = f"  {role}: {{{size}}}"
        lines.append(f"{declared:<29} # {does}")
    lines.append("program:")
    for number, role in enumerate(wishes.roles):
        lines += [f"  {role}:", "    - for: t in 0..tiles", "      do:"]
        lines += _stage(wishes, number)
        lines.append("    - finalize                # waits for all that this role has started")
    return "\n".join(lines) + "\n"


def _stage(wishes: Wishes, number: int) -> list[str]:
    """What a role does with one tile."""
    last = number == len(wishes.roles) - 1
    lines = []
    if number:
        before = wishes.rings[number - 1]
        lines.append(f"        - wait: {before}[t]     # blocks until the slot is filled")
        if last:
            lines += [
                f"        - issue: mma({before}_data[t])     # tensor cores read it on their own",
                "          as: group",
                "        - drain: group        # waits for them; `leaving: 1` overlaps two tiles",
            ]
        else:
            lines.append(f"        - read: {before}[t]")
        lines.append(f"        - release: {before}[t]")
    if not last:
        behind = wishes.rings[number]
        how = "stores it" if number else "bulk copies fill it; their bytes follow from the tiles"
        lines += [
            f"        - acquire: {behind}[t]  # blocks until the slot is free",
            f"        - produce: {behind}[t]  # {how}",
        ]
    return lines


def _copied_ahead(wishes: Wishes, copy: str) -> str:
    amd = copy == "lds_dma"
    threads, agent = (128, "wave") if amd else (64, "warp")
    what = f"A loop whose copies run depth - 1 tiles ahead; each {agent} copies its part."
    head = HEADER.format(what=what, name=wishes.name, target=wishes.target)
    commit = "" if amd else "\n        - commit: copies"
    leaving = '"min(depth - 2, tiles - t - 1)"' if amd else "depth - 2"
    kind = "vmcnt" if amd else "cp_async"
    reads = "  reads: lgkmcnt\n" if amd else ""
    use = (
        '        - async: {reads: "data[t % depth] = t", queue: reads, proxy: generic}\n'
        "        - drain: reads\n"
        if amd
        else "        - load: data[t % depth] = t\n"
    )
    end = "" if amd else "    - drain: copies\n"
    return f"""{head}sizes:
  tiles: any                  # a parameter: the verdict holds for every number of tiles
  depth: {max(wishes.depth, 2):<21}# stages, at least 2
buffers:
  data: {{stages: depth, parts: 2, tile: [128, 32], dtype: f16}}
named_barriers:
  block: {{threads: {threads}}}
queues:
  copies: {kind}
{reads}roles:
  {agent}: {{warps: 2}}           # both run the same program; `self` is 0 or 1
program:
  {agent}:
    - for: s in 0..depth - 1  # the first copies
      do:
        - {copy}: data[s, self] = s
          queue: copies
          when: s < tiles{commit}
    - for: t in 0..tiles
      do:
        - drain: {{copies, leaving: {leaving}}}
        - sync: block         # all parts of tile t are there, and tile t - 1 has been read
        - {copy}: data[(t + depth - 1) % depth, self] = t + depth - 1
          queue: copies
          when: t + depth - 1 < tiles{commit}
{use}{end}"""
