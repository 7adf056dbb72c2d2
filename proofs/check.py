#!/usr/bin/env python3
"""Compiles the Coq files of this folder and checks what they claim; needs `coqc`, nothing else.

Fails when a file does not compile, when a proof is left open (`Admitted`, `admit`, `Abort`), when
an axiom or a parameter is declared or used, when a lemma is used by nothing, and when a theorem is
not stated in docs/explanation/proofs.md. Compiled files go to the folder given (build/proofs).

    python3 proofs/check.py [--kernel] [FOLDER]    # --kernel: coqchk re-checks all that is used

`build_machine` compiles the extracted semantics of sync programs to a program of its own; that
needs `ocamlopt`, which the package of Coq brings.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "explanation" / "proofs.md"
LIBRARY = "Titan"
FORBIDDEN = re.compile(
    r"\b(Admitted|admit|Abort|Axioms?|Parameters?|Conjecture|give_up|bypass_check|"
    r"Unset\s+(?:Guard|Positivity|Universe)\s+Checking)\b"
)
STATED = re.compile(r"^\s*(Theorem|Lemma|Corollary|Fact)\s+(\w+)", re.MULTILINE)
COMMENT = re.compile(r"\(\*.*?\*\)", re.DOTALL)


def without_comments(text: str) -> str:
    return COMMENT.sub(" ", text)


def sources(folder: Path = HERE) -> list[Path]:
    """The files, each after those that it requires."""
    needs = {path: required(path, folder) for path in sorted(folder.glob("*.v"))}
    ordered: list[Path] = []
    while len(ordered) < len(needs):
        ready = [p for p in needs if p not in ordered and needs[p] <= set(ordered)]
        if not ready:
            raise SystemExit("the files require each other in a circle")
        ordered += ready
    return ordered


def required(path: Path, folder: Path) -> set[Path]:
    lines = re.findall(rf"From {LIBRARY} Require Import ([^.]*)\.", path.read_text("utf-8"))
    return {folder / f"{name}.v" for line in lines for name in line.split()}


def faults_of_text(paths: list[Path], page: str) -> list[str]:
    """What the text alone shows: open proofs, axioms, lemmas and theorems that nothing uses."""
    found: list[str] = []
    texts = {path: without_comments(path.read_text("utf-8")) for path in paths}
    everything = "\n".join(texts.values())
    for path, text in texts.items():
        for match in FORBIDDEN.finditer(text):
            line = text[: match.start()].count("\n") + 1
            found.append(f"{path.name}: {match.group(0)} (near line {line})")
        for kind, name in STATED.findall(text):
            if kind == "Theorem":
                if not re.search(rf"`{name}`", page):
                    found.append(f"{path.name}: theorem {name} is not stated in {PAGE.name}")
            elif len(re.findall(rf"\b{name}\b", everything)) < 2:
                found.append(f"{path.name}: lemma {name} is used by nothing")
    return found


def theorems(paths: list[Path]) -> list[tuple[str, str]]:
    """(file, name) of every theorem."""
    return [
        (path.stem, name)
        for path in paths
        for kind, name in STATED.findall(without_comments(path.read_text("utf-8")))
        if kind == "Theorem"
    ]


def compile_all(paths: list[Path], folder: Path, workers: int | None = None) -> None:
    """Compile what has changed since the last time, or rests on something that has.

    Files that do not rest on each other compile side by side, one on each processor; a file starts
    when all that it requires is there. After a failure nothing more starts.
    """
    folder.mkdir(parents=True, exist_ok=True)
    needs = {path: required(path, path.parent) & set(paths) for path in paths}
    waiting = stale(paths, needs, folder)
    for path in waiting:
        (folder / f"{path.stem}.vo").unlink(missing_ok=True)
        (folder / path.name).write_bytes(path.read_bytes())
    running: dict[Future[str], Path] = {}
    with ThreadPoolExecutor(workers or os.cpu_count() or 1) as pool:
        try:
            while waiting or running:
                unfinished = {*waiting, *running.values()}
                for path in [path for path in waiting if not needs[path] & unfinished]:
                    command = ["coqc", "-q", "-Q", ".", LIBRARY, path.name]
                    running[pool.submit(run, command, folder)] = path
                    waiting.remove(path)
                for done in wait(running, return_when=FIRST_COMPLETED).done:
                    del running[done]
                    done.result()
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise


def stale(paths: list[Path], needs: dict[Path, set[Path]], folder: Path) -> list[Path]:
    """Those to compile, of files in order, the ones that most rests on first."""
    found: list[Path] = []
    for path in paths:
        copy, result = folder / path.name, folder / f"{path.stem}.vo"
        same = result.exists() and copy.exists() and copy.read_bytes() == path.read_bytes()
        if not same or needs[path] & set(found):
            found.append(path)
    behind: dict[Path, int] = {}  # bytes of the longest chain of files that starts with this one
    for path in reversed(paths):
        after = [behind[other] for other in paths if path in needs[other]]
        behind[path] = path.stat().st_size + max(after, default=0)
    return sorted(found, key=lambda path: -behind[path])


MACHINE = "SyncExtract"  # what Coq writes the OCaml text of the semantics from


def needed_by(name: str, folder: Path = HERE) -> list[Path]:
    """The files that one rests on, and itself, in order."""
    wanted = {folder / f"{name}.v"}
    while not wanted >= (more := set().union(*(required(path, folder) for path in wanted))):
        wanted |= more
    return [path for path in sources(folder) if path in wanted]


def build_machine(folder: Path, proofs: Path = HERE) -> Path:
    """The program that runs the extracted semantics (sync_machine.ml says what it reads)."""
    compile_all(needed_by(MACHINE, proofs), folder)
    semantics, driver, result = "sync_semantics", "sync_machine.ml", folder / "sync_machine"
    text = (HERE / driver).read_bytes()
    made = folder / f"{semantics}.ml"
    copy = folder / driver
    old = not result.exists() or result.stat().st_mtime_ns < made.stat().st_mtime_ns
    if old or not copy.exists() or copy.read_bytes() != text:
        copy.write_bytes(text)
        sources_ = [f"{semantics}.mli", f"{semantics}.ml", driver]
        run(["ocamlopt", "-w", "-a", *sources_, "-o", result.name], folder)
    return result


def run(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} fails:\n{done.stdout}{done.stderr}")
    return done.stdout


def assumptions(paths: list[Path], folder: Path) -> list[str]:
    """Theorems that rest on anything but definitions."""
    named = theorems(paths)
    lines = [f"From {LIBRARY} Require {path.stem}." for path in paths]
    lines += [f"Print Assumptions {LIBRARY}.{stem}.{name}." for stem, name in named]
    (folder / "assumptions.v").write_text("\n".join(lines) + "\n", "utf-8")
    told = run(["coqc", "-q", "-Q", ".", LIBRARY, "assumptions.v"], folder)
    closed = told.count("Closed under the global context")
    if closed == len(named):
        return []
    return [f"of {len(named)} theorems {closed} are closed:\n{told}"]


def main(arguments: list[str]) -> int:
    if shutil.which("coqc") is None:
        print("proofs: skipped, there is no coqc (apt-get install coq)")
        return 0
    places = [argument for argument in arguments if not argument.startswith("-")]
    folder = Path(places[0] if places else "build/proofs")
    paths = sources()
    found = faults_of_text(paths, PAGE.read_text("utf-8") if PAGE.exists() else "")
    compile_all(paths, folder)
    found += assumptions(paths, folder)
    if "--kernel" in arguments:
        modules = [f"{LIBRARY}.{path.stem}" for path in paths]
        run(["coqchk", "-silent", "-o", "-Q", ".", LIBRARY, *modules], folder)
    for fault in found:
        print(f"proofs: {fault}")
    if not found:
        print(f"proofs: {len(paths)} files, {len(theorems(paths))} theorems, no axioms")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
