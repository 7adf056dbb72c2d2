"""Broken variants of the library: what each gets wrong, the edit, the rules that see it.

An edit replaces text that stands in the file, its comments left out, exactly `times` times.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Broken:
    what: str
    old: str
    new: str
    codes: frozenset[str]
    times: int = 1


def broken(what: str, old: str, new: str, codes: str, times: int = 1) -> Broken:
    return Broken(what, old, new, frozenset(codes.split()), times)


VARIANTS: dict[str, list[Broken]] = {
    "ampere_gemm_multistage": [
        broken(
            "one group too many may be left",
            "{copies, leaving: depth - 2}",
            "{copies, leaving: depth - 1}",
            "TTN203",
        ),
        broken(
            "no barrier after the wait",
            "- sync: block",
            "- let: {unused: 0}",
            "TTN204",
        ),
        broken(
            "a group only where something is copied",
            ("        - commit: copies\n        - load:"),
            ("        - commit: copies\n          when: t + depth - 1 < tiles\n        - load:"),
            "TTN203",
        ),
        broken(
            "the copy goes to the stage that is read",
            "AB[(t + depth - 1) % depth, self]",
            "AB[t % depth, self]",
            "TTN203",
        ),
    ],
    "blackwell_gemm": [
        broken(
            "the accumulator is not waited for",
            ("        - wait: drained[w % 2]\n          phase: w // 2 - 1\n"),
            "",
            "TTN203",
        ),
        broken(
            "the accumulator is given back before it is read",
            ("        - load: T[w % 2, self] = w\n        - arrive: drained[w % 2]\n"),
            ("        - arrive: drained[w % 2]\n        - load: T[w % 2, self] = w\n"),
            "TTN203",
        ),
        broken(
            "no proxy fence before the output is stored",
            "        - fence: async\n",
            "",
            "TTN301",
        ),
        broken(
            "the output is rewritten while it is stored",
            ("        - drain: {output, until: read}\n          when: self == 0\n"),
            "",
            "TTN202",
        ),
        broken(
            "the stage is given back at issue",
            ("            - commit: tensor_core\n              arrives: empty[n % depth]\n"),
            "            - arrive: empty[n % depth]\n",
            "TTN202",
        ),
        broken(
            "one epilogue warp gives back for all",
            "drained: {stages: 2, count: 4}",
            "drained: {stages: 2, count: 1}",
            "TTN212",
        ),
    ],
    "bulk_copy": [
        broken(
            "one store too many may still read",
            "{output, leaving: 1, until: read}",
            "{output, leaving: 2, until: read}",
            "TTN202",
        ),
        broken(
            "the store is not committed",
            "        - commit: output\n",
            "",
            "TTN211",
        ),
        broken(
            "half of the bytes are expected",
            (
                "        - if: t + depth - 1 < tiles\n"
                "          then:\n"
                "            - arrive: full[(t + depth - 1) % depth]\n"
                "              bytes: 16384"
            ),
            (
                "        - if: t + depth - 1 < tiles\n"
                "          then:\n"
                "            - arrive: full[(t + depth - 1) % depth]\n"
                "              bytes: 8192"
            ),
            "TTN207",
        ),
        broken(
            "the prologue does not know how many tiles there are",
            "- if: s < tiles",
            "- if: s < depth",
            "TTN211",
        ),
    ],
    "fa3_backward": [
        broken(
            "no proxy fence behind the score gradient",
            ("        - store: dS[0, self] = m\n        - fence: async\n"),
            "        - store: dS[0, self] = m\n",
            "TTN301",
        ),
        broken(
            "the score gradient is rewritten while it is read",
            "        - sync: gradient[0]\n",
            "",
            "TTN202",
        ),
        broken(
            "the output gradient is not waited for",
            ("        - wait: do_full[s]\n          phase: round\n"),
            "",
            "TTN204",
        ),
        broken(
            "the query is given back while it is read",
            ("        - drain: group\n        - arrive: q_empty[s]\n"),
            ("        - arrive: q_empty[s]\n        - drain: group\n"),
            "TTN202",
        ),
        broken(
            "the reduction is not waited for",
            "            - drain: {reduction, leaving: 1 - g, until: read}\n",
            "",
            "TTN202",
        ),
    ],
    "fa3_forward": [
        broken(
            "the value stage is given back without a wait",
            ("        - drain: group\n        - release: values[n - 1]\n"),
            "        - release: values[n - 1]\n",
            "TTN202",
        ),
        broken(
            "the key stage is never given back in the loop",
            "        - release: keys[n]\n",
            "",
            "TTN105 TTN205",
        ),
        broken(
            "nobody begins",
            ("    - arrive: turn[0]\n      when: self == 1\n"),
            "",
            "TTN205",
        ),
        broken(
            "the producer makes a key block too many",
            ("- for: n in 1..blocks\n      do:\n        - acquire: keys[n]"),
            ("- for: n in 1..blocks + 1\n      do:\n        - acquire: keys[n]"),
            "TTN102 TTN206",
        ),
        broken(
            "both groups may be left",
            ("        - drain: {group, leaving: 1}\n        - release: keys[n]"),
            ("        - drain: {group, leaving: 2}\n        - release: keys[n]"),
            "TTN202",
        ),
    ],
    "fa4_forward": [
        broken(
            "the output need not be rescaled",
            "p_full: {stages: 2, count: 2}",
            "p_full: {stages: 2, count: 1}",
            "TTN212",
        ),
        broken(
            "the output is not waited for",
            ("        - wait: o_full[q]\n          phase: 0\n"),
            "",
            "TTN204",
        ),
        broken(
            "the probabilities are announced before they are written",
            ("        - store: P[q] = n\n        - arrive: p_full[q]\n"),
            ("        - arrive: p_full[q]\n        - store: P[q] = n\n"),
            "TTN202",
        ),
        broken(
            "the value stage is given back at issue",
            ("        - commit: tensor_core\n          arrives: v_empty[n % depth]\n"),
            "        - arrive: v_empty[n % depth]\n",
            "TTN202",
        ),
    ],
    "grouped_gemm": [
        broken(
            "the new map is not acquired",
            "        - fence: tensormap_acquire\n",
            "",
            "TTN304",
        ),
        broken(
            "the map is edited while loads use it",
            (
                "        - for: j in 1..depth + 1\n"
                "          do:\n"
                "            - wait: full[(n - j) % depth]\n"
                "              phase: (n - j) // depth\n"
                "              when: n >= j\n"
            ),
            "",
            "TTN202",
        ),
        broken(
            "only the last load is waited for",
            "- for: j in 1..depth + 1",
            "- for: j in 1..2",
            "TTN202",
        ),
        broken(
            "one warpgroup frees the stage for both",
            "empty: {stages: depth, count: 2}",
            "empty: {stages: depth, count: 1}",
            "TTN212",
        ),
    ],
    "hopper_gemm": [
        broken(
            "the stage is given back while it is read",
            (
                "        - release: operands[t - 1]\n"
                "          when: t >= 1\n"
                "    - drain: group\n"
                "    - release: operands[tiles - 1]\n"
                "      when: tiles >= 1\n"
            ),
            ("        - release: operands[t]\n    - drain: group\n"),
            "TTN104 TTN202",
        ),
        broken(
            "one group too many may be left",
            "{group, leaving: 1}",
            "{group, leaving: 2}",
            "TTN104 TTN202",
        ),
        broken(
            "the stage is not acquired",
            "        - acquire: operands[t]\n",
            "",
            "TTN101 TTN206",
        ),
        broken(
            "the producer makes a tile too many",
            ("- for: t in 0..tiles\n      do:\n        - acquire"),
            ("- for: t in 0..tiles + 1\n      do:\n        - acquire"),
            "TTN108 TTN211",
        ),
        broken(
            "the tile is not waited for",
            "        - wait: operands[t]\n",
            "",
            "TTN103 TTN109 TTN112 TTN113 TTN204",
        ),
        broken(
            "the last tile is given back also where there is none",
            ("    - release: operands[tiles - 1]\n      when: tiles >= 1\n"),
            "    - release: operands[tiles - 1]\n",
            "TTN106 TTN112",
        ),
    ],
    "hopper_gemm_multicast": [
        broken(
            "the peer is not told",
            (
                "        - arrive: empty[t % depth]@0\n"
                "          scope: cluster\n"
                "        - arrive: empty[t % depth]@1\n"
                "          scope: cluster\n"
            ),
            ("        - arrive: empty[t % depth]\n          count: 2\n"),
            "TTN203",
        ),
        broken(
            "nobody waits for the peer at the end",
            "    - sync: cluster\n",
            "",
            "TTN211",
            2,
        ),
        broken(
            "the peer's bytes are not expected",
            "bytes: 24576",
            "bytes: 16384",
            "TTN204",
        ),
        broken(
            "the stage is given back while it is read",
            (
                "        - drain: group\n"
                "        - arrive: empty[t % depth]@0\n"
                "          scope: cluster\n"
                "        - arrive: empty[t % depth]@1\n"
                "          scope: cluster\n"
            ),
            (
                "        - arrive: empty[t % depth]@0\n"
                "          scope: cluster\n"
                "        - arrive: empty[t % depth]@1\n"
                "          scope: cluster\n"
                "        - drain: group\n"
            ),
            "TTN202",
        ),
    ],
    "hopper_gemm_persistent": [
        broken(
            "no proxy fence before the output is stored",
            "        - fence: async\n",
            "",
            "TTN301",
        ),
        broken(
            "the output is rewritten while it is stored",
            ("        - drain: {output, until: read}\n          when: self == 0\n"),
            "",
            "TTN202",
        ),
        broken(
            "the output is stored before it is complete",
            "        - sync: epilogue[1]\n",
            "",
            "TTN432",
        ),
        broken(
            "the last k-tile is never given back",
            "        - drain: group\n        - release: operands[n - 1]\n",
            "        - drain: group\n",
            "TTN105 TTN205",
        ),
    ],
    "hopper_gemm_pingpong": [
        broken(
            "no proxy fence before the output is stored",
            "            - fence: async\n",
            "",
            "TTN301",
        ),
        broken(
            "the turn is not given on",
            "            - arrive: main_turn[1 - self]\n",
            "",
            "TTN205",
        ),
        broken(
            "the output is rewritten while it is stored",
            "            - drain: {output, until: read}\n",
            "",
            "TTN202",
        ),
        broken(
            "the last k-tile is given back while it is read",
            (
                "            - drain: group\n"
                "            - arrive: empty[(w * k_tiles + k_tiles - 1) % depth]\n"
            ),
            (
                "            - arrive: empty[(w * k_tiles + k_tiles - 1) % depth]\n"
                "            - drain: group\n"
            ),
            "TTN202",
        ),
    ],
    "mi300_gemm": [
        broken(
            "one load too many may be left",
            "min(depth - 2, tiles - t - 1)",
            "min(depth - 1, tiles - t - 1)",
            "TTN203",
        ),
        broken(
            "the wait forgets that loads run out",
            '"min(depth - 2, tiles - t - 1)"',
            "depth - 2",
            "TTN203",
        ),
        broken(
            "the stage is loaded while it is read",
            "        - drain: reads\n",
            ("        - drain: {reads, leaving: 1}\n    - drain: reads\n"),
            "TTN202",
        ),
        broken(
            "no barrier",
            "        - sync: workgroup\n",
            "",
            "TTN204",
        ),
    ],
    "mi300_pingpong": [
        broken(
            "the groups do not end in step",
            ("    - sync: workgroup\n      when: high == 0\n"),
            "",
            "TTN205",
        ),
        broken(
            "the wait forgets that loads run out",
            '"max(0, min(1, tiles - t - 2))"',
            "1",
            "TTN203",
        ),
        broken(
            "one stage short",
            "% 3",
            "% 2",
            "TTN202",
            2,
        ),
        broken(
            "the stage is loaded while it is read",
            ("        - drain: reads\n        - sync: workgroup\n        - sync: workgroup\n"),
            ("        - sync: workgroup\n        - sync: workgroup\n        - drain: reads\n"),
            "TTN202",
        ),
    ],
    "split_k_cluster": [
        broken(
            "the partial result is read without a wait",
            "    - sync: cluster[1]\n",
            "",
            "TTN201",
            4,
        ),
        broken(
            "the stage is given back while it is read",
            ("        - drain: group\n        - arrive: empty[t % depth]\n"),
            ("        - arrive: empty[t % depth]\n        - drain: group\n"),
            "TTN202",
            2,
        ),
        broken(
            "the wait means the phase after",
            ("        - wait: full[t % depth]\n          phase: t // depth\n"),
            ("        - wait: full[t % depth]\n          phase: t // depth + 1\n"),
            "TTN212",
            2,
        ),
        broken(
            "the result of the peer is not written",
            "    - store: partial[0]@0 = 1\n",
            "",
            "TTN204",
        ),
    ],
}
