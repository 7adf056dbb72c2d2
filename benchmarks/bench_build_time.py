"""How long `titan build` takes for every tile program of the library, nothing known before.

One run of the command with as many processes as cores, an empty cache, and the toolchains: the time
on the wall, and the processor time of all processes with those of the compilers. On a machine that
others use the wall says little; processor time over cores is what an idle one would need at least.
From the root of the repository:

    python benchmarks/bench_build_time.py [--jobs N] [--page docs/reference/build.md]
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(ROOT / "benchmarks"))

from titan.foundation.cores import cores  # noqa: E402
from titan.validate.compare.compile import NVCC_MISSING, nvcc  # noqa: E402
from titan.validate.compare.gcn_compile import missing_tools  # noqa: E402

IDLE = 1.2  # wall over processor time of a core, up to which nobody else worked
BEGIN, END = "<!-- whole -->\n", "<!-- end of whole -->"


def measured(jobs: int) -> str:
    """One run, in words. Raises RuntimeError where a program is refused, or a compiler is missing:
    packages are built without it, sooner."""
    missing = ([] if nvcc() else [NVCC_MISSING]) + missing_tools()
    if missing:
        raise RuntimeError(f"toolchains are missing: {', '.join(missing)}")
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "titan", "build", str(ROOT / "protocols" / "tiles")]
        command += ["-o", f"{folder}/out", "--cache", f"{folder}/known", "--jobs", str(jobs)]
        begin = time.monotonic()
        # Compilers keep caches in the home folder; there shall be none.
        environment = {**os.environ, "HOME": folder, "XDG_CACHE_HOME": f"{folder}/cache"}
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
        wall = time.monotonic() - begin
        packages = len(list(Path(folder).glob("out/*/manifest.json")))
    if done.returncode:
        raise RuntimeError(done.stderr)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = used.ru_utime + used.ru_stime
    shared = ", on a machine that others used" if wall > IDLE * spent / jobs else ""
    return (
        f"{packages} packages in {jobs} processes, with the toolchains and an empty cache:"
        f" {spent:.0f} s of processor time, {spent / jobs:.0f} s on each of {jobs} cores"
        f" ({wall:.0f} s on the wall{shared}).\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--jobs", type=int, default=cores(), help="processes")
    parser.add_argument("--page", type=Path, help="write the words into this page")
    options = parser.parse_args()
    words = measured(options.jobs)
    print(words, end="")
    if options.page:
        page = options.page.read_text(encoding="utf-8")
        head, _, rest = page.partition(BEGIN)
        _, _, tail = rest.partition(END)
        options.page.write_text(head + BEGIN + words + END + tail, encoding="utf-8")


if __name__ == "__main__":
    main()
