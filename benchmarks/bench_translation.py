"""The mutation score of the translation check: planted faults in emitted kernels that it sees.

    python -m benchmarks.bench_translation [NAME...]

Needs nvcc. For each kernel every fault of tests/validate/compare/source_mutants.py, one at a time:
the file is compiled and compared with the sync program. Prints the score and what was not seen.
"""

from __future__ import annotations

import sys
import time
from collections import Counter

from tests.validate.compare.kernels import emission


def main(names: list[str]) -> None:
    for name in names:
        made = emission(name)
        begin = time.monotonic()
        told = made.faults(made.files)
        print(f"{name}: {len(made.launches)} launches, {time.monotonic() - begin:.1f} s, {told}")
        planted = made.mutants()
        how: Counter[str] = Counter()
        for file, mutant in planted:
            found = made.faults({**made.files, file: mutant.text})
            kinds = ("CannotCompile", "UnsupportedPtx")
            kind = next((kind for kind in kinds if found and found[0].startswith(kind)), "compared")
            how[kind if found else "not seen"] += 1
            if not found:
                print(f"  not seen: {mutant.kind}, {file}:{mutant.line}")
        seen = len(planted) - how["not seen"]
        seconds = time.monotonic() - begin
        print(f"{name}: {seen} of {len(planted)} planted faults seen, {seconds:.0f} s; {dict(how)}")


if __name__ == "__main__":
    main(sys.argv[1:] or ["gemm", "gemm_bias_gelu", "attention_forward"])
