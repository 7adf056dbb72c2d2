"""The machine code of a file or a package as functions: compiled, assembled or read as it is."""

from __future__ import annotations

from pathlib import Path

from titan.foundation.diagnostics.wording import quoted
from titan.foundation.scratch import scratch
from titan.foundation.source.json_text import read_json
from titan.foundation.source.loading import load_bytes, regular_bytes
from titan.inspect.listing import BadListing, MachineFunction, read_listing
from titan.inspect.tools import assembled, disassembled, ptxas, version_of
from titan.target.description import GENERATED, target_of
from titan.validate.compare.compile import ptx_of
from titan.validate.compare.gcn_compile import compile_hip
from titan.validate.compare.toolchain import CompiledKernel, Figures

TEXT_BYTES_MAX = 1 << 30
LISTINGS = (".sass", ".s", ".txt")
Machine = tuple[str, Figures | None, tuple[MachineFunction, ...]]


def assembles(path: Path) -> bool:
    """Whether another ptxas would give other machine code."""
    return path.suffix == ".ptx" or (path / "kernel.cu").is_file()


def read(path: Path, assembler: Path | None = None) -> Machine:
    """The compiler in words, its figures, and the functions of a package or a file.

    Raises BadListing, ToolchainMissing and CannotCompile.
    """
    if path.is_dir():
        return _package(path, assembler)
    if path.suffix == ".ptx":
        return _assembled(_text(path), assembler)
    if path.suffix == ".cubin":
        return "", None, read_listing(disassembled(_bytes(path)))
    if path.suffix in LISTINGS:
        return "", None, read_listing(_text(path))
    raise BadListing(f"neither a package nor .ptx, .cubin or {', '.join(LISTINGS)}")


def _text(path: Path) -> str:
    """The text of a file. Raises BadListing with the place of what is no text."""
    source, errors = load_bytes(_bytes(path), path.name, TEXT_BYTES_MAX)
    if source is None:
        span = errors[0].span
        place = f"{span.start_line}:{span.start_column}: " if span is not None else ""
        raise BadListing(f"{place}{errors[0].headline}")
    return source.text


def _bytes(path: Path) -> bytes:
    """What a file holds, at most one byte over the limit. Raises BadListing."""
    try:
        return regular_bytes(path, TEXT_BYTES_MAX)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise BadListing(f"the file cannot be read: {str(reason).lower()}") from None


def of_compiled(compiled: CompiledKernel) -> tuple[MachineFunction, ...]:
    """The functions of a kernel as the toolchain of its target gave it.

    Raises ToolchainMissing, CannotCompile, and BadListing where it holds no machine code.
    """
    if target_of(compiled.target).amd:
        return read_listing(compiled.text)
    if not compiled.code:
        raise BadListing("the compiler left no machine code")
    return read_listing(disassembled(compiled.code))


def _package(folder: Path, assembler: Path | None) -> Machine:
    target, source, header = _manifest(folder / "manifest.json")
    files: dict[str, str] = {}
    for name in (source, header):
        try:
            files[name] = _text(folder / name)
        except BadListing as error:
            raise BadListing(f"not a package: {quoted(name)}: {error}") from None
    if target_of(target).nvidia:
        return _assembled(ptx_of(files, target), assembler)
    with scratch("titan-inspect-") as place:
        for name, text in files.items():
            (Path(place) / name).write_text(text, encoding="utf-8")
        compiled = compile_hip(Path(place) / source, target)
    return "clang", compiled.figures, read_listing(compiled.text)


def _manifest(path: Path) -> tuple[str, str, str]:
    """The target of a package, its source and its header, by their names in it."""
    manifest, errors = read_json(path, TEXT_BYTES_MAX)
    if errors:
        span = errors[0].span
        place = f"{span.start_line}:{span.start_column}: " if span is not None else ""
        raise BadListing(f"not a package: manifest.json: {place}{errors[0].headline}")
    given = manifest if isinstance(manifest, dict) else {}
    target, source, header = (given.get(key) for key in ("target", "source", "header"))
    if not (isinstance(target, str) and isinstance(source, str) and isinstance(header, str)):
        raise BadListing("not a package: manifest.json lacks its target, its source or its header")
    if target not in GENERATED:
        raise BadListing(f"not a package: manifest.json names an unknown target: {quoted(target)}")
    return target, Path(source).name, Path(header).name


def _assembled(ptx: str, assembler: Path | None) -> Machine:
    code, figures = assembled(ptx, assembler)
    tool = assembler or ptxas()
    compiler = f"ptxas {version_of(tool)}" if tool is not None else ""
    return compiler, figures, read_listing(disassembled(code))
