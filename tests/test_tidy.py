"""The house rules that a program can check: sizes, imports, words, documents, codes.

An exception needs a reason, and must still be needed: a stale one fails too.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from titan.diagnostics.codes import CODES

ROOT = Path(__file__).resolve().parents[1]
MODULE_LINES_MAX = 600
FUNCTION_LINES_MAX = 70
COLUMNS_MAX = 100

# path, or path::function -> (limit, why it is better long)
LONG_MODULES: dict[str, tuple[int, str]] = {}
LONG_FUNCTIONS: dict[str, tuple[int, str]] = {}

# Every folder may import these; what else it may, stands in the table of ARCHITECTURE.
COMMON = {"source", "diagnostics", "resources"}
ARCHITECTURE = ROOT / "docs" / "explanation" / "architecture.md"

# The trusted part finds nothing by searching cleverly, so it needs none of these.
SEARCHERS = {"z3", "pysmt", "cvc5", "ortools", "pysat", "networkx", "torch", "numpy"}
TRUSTED = ("titan/source", "titan/diagnostics", "titan/sync", "titan/schedule/check.py")

# Not at the level of a module where `titan --help` or `titan explain` would load it.
HEAVY = SEARCHERS | {"pydantic", "cffi", "rich", "ruamel", "jinja2", "cupy"}
LIGHT = (
    "titan/__init__.py",
    "titan/resources.py",
    "titan/cli",
    "titan/diagnostics",
    "titan/source",
)

TEXT_SUFFIXES = {".py", ".md", ".yaml", ".yml", ".toml", ".json", ".c", ".h", ".litmus", ".txt", ""}
SKIPPED = {"build", "dist", "out", "node_modules", "__pycache__"}


@cache
def text_files() -> tuple[Path, ...]:
    """All text files of the project.

    Hidden folders (tools' caches, .git, .venv) are skipped but .ci.
    """

    def walk(folder: Path) -> Iterator[Path]:
        for path in sorted(folder.iterdir()):
            if path.is_dir():
                hidden = path.name.startswith(".") and path.name != ".ci"
                if not hidden and path.name not in SKIPPED:
                    yield from walk(path)
            elif path.suffix in TEXT_SUFFIXES and not path.name.startswith("."):
                yield path

    return tuple(walk(ROOT))


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def content(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(content(path))


def python_files(*below: str) -> list[Path]:
    return [
        path
        for path in text_files()
        if path.suffix == ".py"
        and (
            not below or any(name_of(path) == b or name_of(path).startswith(b + "/") for b in below)
        )
    ]


def functions(path: Path) -> Iterator[tuple[str, int]]:
    """Each function of a module with its number of lines, its docstring included."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            yield f"{name_of(path)}::{node.name}", node.end_lineno - node.lineno + 1


def imports(path: Path, top_level_only: bool = False) -> set[str]:
    """The modules that a module imports, by their full names."""
    found: set[str] = set()
    nodes = tree(path).body if top_level_only else list(ast.walk(tree(path)))
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name_of(path)}: relative import"
            found.add(node.module or "")
            if node.module == "titan":
                found |= {f"titan.{alias.name}" for alias in node.names}
    return found


def test_modules_are_not_too_long():
    lengths = {name_of(path): content(path).count("\n") for path in python_files()}
    long = {name: n for name, n in lengths.items() if n > MODULE_LINES_MAX}
    assert {name: n for name, n in long.items() if n > LONG_MODULES.get(name, (0, ""))[0]} == {}
    assert set(LONG_MODULES) <= set(long), "an exception that is no longer needed"


def test_functions_are_not_too_long():
    lengths = dict(pair for path in python_files() for pair in functions(path))
    long = {name: n for name, n in lengths.items() if n > FUNCTION_LINES_MAX}
    assert {name: n for name, n in long.items() if n > LONG_FUNCTIONS.get(name, (0, ""))[0]} == {}
    assert set(LONG_FUNCTIONS) <= set(long), "an exception that is no longer needed"


def test_lines_of_code_are_not_too_long():
    found = [
        f"{name_of(path)}:{number}"
        for path in text_files()
        if path.suffix in {".py", ".c", ".h"}
        for number, line in enumerate(content(path).split("\n"), start=1)
        if len(line) > COLUMNS_MAX
    ]
    assert found == []


def test_every_module_says_what_it_is_for():
    missing = [
        name_of(path)
        for path in python_files("titan", "tests", "benchmarks")
        if content(path).strip() and not ast.get_docstring(tree(path))
    ]
    assert missing == []


def test_every_folder_of_the_package_is_a_package():
    folders = {path.parent for path in python_files("titan")}
    assert [name_of(folder) for folder in folders if not (folder / "__init__.py").is_file()] == []


@cache
def may_import() -> dict[str, set[str]]:
    """Folder below titan/ -> folders that it may import, read from the table of the document."""
    table: dict[str, set[str]] = {}
    rows = re.findall(r"^\| `titan/(\w+)/` \|.*\| ([^|]*?) \|$", content(ARCHITECTURE), re.M)
    for part, allowed in rows:
        if allowed in ("all", "all of the above"):
            table[part] = set(table)
        else:
            table[part] = set(allowed.split(", ")) - {"nothing"}
    unknown = {name for names in table.values() for name in names} - set(table)
    assert not unknown, (
        f"the table of {name_of(ARCHITECTURE)} allows what it does not list: {unknown}"
    )
    return table


def part_of(module: str) -> str | None:
    """The folder (or module) directly below titan/ that a module name belongs to."""
    pieces = module.split(".")
    return pieces[1] if pieces[0] == "titan" and len(pieces) > 1 else None


def test_imports_stay_within_the_boundaries():
    wrong = []
    for path in python_files("titan"):
        part = part_of(name_of(path).removesuffix(".py").replace("/", "."))
        if part is None or path.parent.name == "titan":
            continue
        allowed = {part} | COMMON | may_import().get(part, set())
        for module in imports(path):
            other = part_of(module)
            if other is not None and other not in allowed and other != "__version__":
                wrong.append(f"{name_of(path)} imports {module}")
    assert wrong == []


def test_every_folder_has_its_boundaries():
    parts = {path.relative_to(ROOT / "titan").parts[0] for path in python_files("titan")}
    folders = {part for part in parts if not part.endswith(".py")}
    assert folders <= set(may_import())
    assert len(may_import()) > 10, "the table is read"


def test_the_boundaries_have_no_cycle():
    left = {part: set(others) for part, others in may_import().items()}
    while left:
        free = [part for part, others in left.items() if not others & set(left)]
        assert free, f"a cycle among {sorted(left)}"
        for part in free:
            del left[part]


def test_the_trusted_part_imports_nothing_that_searches():
    wrong = [
        f"{name_of(path)} imports {module}"
        for path in python_files(*TRUSTED)
        for module in imports(path)
        if module.split(".")[0] in SEARCHERS
    ]
    assert wrong == []


def test_heavy_imports_are_inside_functions():
    wrong = [
        f"{name_of(path)} imports {module}"
        for path in python_files(*LIGHT)
        for module in imports(path, top_level_only=True)
        if module.split(".")[0] in HEAVY
    ]
    assert wrong == []


def test_every_code_that_is_mentioned_is_in_the_table():
    wrong = [
        f"{name_of(path)}: {code}"
        for path in text_files()
        if not name_of(path).startswith("tests/")
        for code in sorted(set(re.findall(r"\bTTN\d{3}\b", content(path))))
        if code not in CODES
    ]
    assert wrong == []


def test_no_path_of_a_machine():
    folders = ("work", "home", "root", "tmp", "Users", "opt", "mnt", "workspace", "usr/local")
    pattern = re.compile(r"(?<![\w.<>*\-/}])/(?:" + "|".join(folders) + r")/[\w.]")
    wrong = [
        f"{name_of(path)}:{number}"
        for path in text_files()
        for number, line in enumerate(content(path).split("\n"), start=1)
        if pattern.search(line)
    ]
    assert wrong == []


def test_no_marks_of_unfinished_work():
    marks = re.compile(
        r"\b(?:" + "|".join(("FIX" + "ME", "TO" + "DO", "X" * 3, "HA" + "CK")) + r")\b"
    )
    wrong = [
        f"{name_of(path)}:{number}"
        for path in text_files()
        if path.name != "LICENSE"
        for number, line in enumerate(content(path).split("\n"), start=1)
        if marks.search(line)
    ]
    assert wrong == []


MARKDOWN = [path for path in text_files() if path.suffix == ".md"]


def prose(path: Path) -> list[str]:
    """The lines of a Markdown file outside of fenced blocks."""
    lines, fenced = [], False
    for line in content(path).split("\n"):
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
        elif not fenced:
            lines.append(line)
    return lines


@pytest.mark.parametrize("path", MARKDOWN, ids=name_of)
def test_a_document_has_one_title_and_its_links_resolve(path):
    lines = prose(path)
    assert lines[0].startswith("# ")
    assert sum(line.startswith("# ") for line in lines) == 1
    for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`]*`", "", "\n".join(lines))):
        if not re.match(r"[a-z]+:|#", target):
            assert (path.parent / target.partition("#")[0]).exists(), target


def test_test_modules_do_not_shadow_each_other():
    """Outside of packages pytest imports test modules by their bare names."""
    bare = [
        path.name
        for path in python_files("tests")
        if path.name.startswith("test_") and not (path.parent / "__init__.py").is_file()
    ]
    assert len(bare) == len(set(bare))


def test_the_checks_see_files():
    assert len(python_files("titan")) > 50
    assert ROOT / ".ci" / "run" in text_files()
