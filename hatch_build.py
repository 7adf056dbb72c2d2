"""Build hook: compiles the native cores through cffi.

Each core has a build script that describes it (`builder()`). A wheel
carries the compiled modules; an editable install, and `python hatch_build.py` by hand, put them
beside their Python twins in the source tree. Where nothing can be compiled TITAN works without:
slower, with the same verdicts, and `titan doctor` says so. TITAN_REQUIRE_CORE=1 makes that an error
instead, and warnings of the compiler as well. With TITAN_CORES_LATER=1 an editable install leaves
them to who calls it: the Makefile installs twice, and compiles them once.

`python hatch_build.py --sanitize FOLDER` compiles them with the sanitizers of addresses and of
undefined behaviour, for tests/sanitized.py.

cffi's compile calls setuptools, whose discovery of packages refuses a folder with protocols/,
litmus/, backends/ and proofs/ beside titan/; hence the temporary folder.
"""

from __future__ import annotations

import os
import runpy
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ModuleNotFoundError:  # run by hand, outside of a build
    BuildHookInterface = object  # type: ignore[assignment,misc]

SANITIZERS = (
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
    "-fno-omit-frame-pointer",
    "-g",
    "-Werror",
)
SCRIPTS = (
    "titan/engines/explore/_build_core.py",
    "titan/scheduling/_build_core.py",
    "titan/isa/simt/_build_core.py",
    "titan/isa/numbers/_build_core.py",
)


def compile_cores(project: Path, folder: Path, flags: tuple[str, ...] = ()) -> dict[str, Path]:
    """Compile every core whose script exists; gives place in the package -> compiled file.

    A core that cannot be compiled is left out with a message on stderr. Raises RuntimeError for it
    when TITAN_REQUIRE_CORE is 1.
    """
    built: dict[str, Path] = {}
    required = os.environ.get("TITAN_REQUIRE_CORE") == "1"
    if required:
        flags = (*flags, "-Werror")
    for script in SCRIPTS:
        path = project / script
        if not path.is_file():
            continue
        try:
            made = _compile(path, folder / path.parent.name, flags)
        except Exception as error:  # no compiler, no headers, a linker that fails
            if required:
                raise RuntimeError(f"{script} failed: {error}") from error
            print(
                f"titan: the native core of {path.parent.name} is not built, its slower Python "
                f"twin will be used ({type(error).__name__}: {str(error).strip()[:300]})",
                file=sys.stderr,
            )
            continue
        built[f"{path.parent.relative_to(project).as_posix()}/{made.name}"] = made
    return built


def _compile(script: Path, folder: Path, flags: tuple[str, ...]) -> Path:
    builder = runpy.run_path(str(script), run_name="titan_build")["builder"](*flags)
    folder.mkdir(parents=True)
    return Path(builder.compile(tmpdir=str(folder), verbose=False))


def build_in_place(project: Path) -> list[str]:
    """Compile the cores and put them into the source tree; gives their paths in it."""
    with tempfile.TemporaryDirectory(prefix="titan-core-") as folder:
        built = compile_cores(project, Path(folder))
        for place, made in built.items():
            target = project / place
            fresh = target.with_name(target.name + ".new")
            shutil.copy2(made, fresh)
            fresh.replace(target)  # a process that has the old module loaded keeps it
    return sorted(built)


class CustomBuildHook(BuildHookInterface):
    """Called by hatchling for wheels and editable installs."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the cores, and name them and the platform in the wheel's data."""
        if self.target_name != "wheel":
            return
        project = Path(self.root)
        if version == "editable":
            if os.environ.get("TITAN_CORES_LATER") != "1":
                build_in_place(project)
            return
        self._folder = tempfile.mkdtemp(prefix="titan-core-")
        built = compile_cores(project, Path(self._folder))
        for place, made in built.items():
            build_data["force_include"][str(made)] = place
        if built:
            build_data["pure_python"] = False
            build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the temporary folder."""
        shutil.rmtree(getattr(self, "_folder", ""), ignore_errors=True)


def main(arguments: list[str]) -> None:
    """Build in place, or with sanitizers into a folder (`--sanitize FOLDER`)."""
    project = Path(__file__).resolve().parent
    if arguments[:1] == ["--sanitize"] and len(arguments) == 2:
        shutil.rmtree(arguments[1], ignore_errors=True)
        names = [
            str(path) for path in compile_cores(project, Path(arguments[1]), SANITIZERS).values()
        ]
    elif not arguments:
        names = build_in_place(project)
    else:
        raise SystemExit("usage: hatch_build.py [--sanitize FOLDER]")
    print("\n".join(names))


if __name__ == "__main__":
    main(sys.argv[1:])
