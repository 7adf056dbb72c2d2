"""The house rules that a program can check: sizes, imports, words, documents, codes.

An exception needs a reason, and must still be needed: a stale one fails too.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from titan.foundation.diagnostics.codes import CODES

ROOT = Path(__file__).resolve().parents[1]
MODULE_LINES_MAX = 600
FUNCTION_LINES_MAX = 70
COLUMNS_MAX = 100

# path, or path::function -> (limit, why it is better long)
_ONE_HEADER = "ships in every package as one file that needs no other, for nvcc, NVRTC and hipRTC"
LONG_MODULES: dict[str, tuple[int, str]] = {
    "backends/sm_90a/titan_device.cuh": (1150, _ONE_HEADER),
    "backends/gfx942/titan_device.hip.h": (1550, _ONE_HEADER),
}
LONG_FUNCTIONS: dict[str, tuple[int, str]] = {}

# Every room may import this wing; what else it may, stands in the table of ARCHITECTURE.
COMMON = "foundation"
ARCHITECTURE = ROOT / "docs" / "explanation" / "architecture.md"

# The trusted part finds nothing by searching cleverly, so it needs none of these.
SEARCHERS = {"z3", "pysmt", "cvc5", "ortools", "pysat", "networkx", "torch", "numpy"}

# Not at the level of a module where `titan --help` or `titan explain` would load it.
HEAVY = SEARCHERS | {"cffi", "rich", "ruamel", "jinja2", "cupy"}
LIGHT = (
    "titan/__init__.py",
    "titan/foundation/resources.py",
    "titan/cli",
    "titan/foundation/diagnostics",
    "titan/foundation/source",
)

# Words of our own that the field has a term for: where they must not stand, and what to say. They
# count as a part of an identifier too.
EVERYWHERE = ("titan", "backends", "docs", "README.md", "CONTRIBUTING.md")
CORE = ("titan/sync", "titan/engines", "titan/verify", "titan/validate", "titan/codegen")
OWN_WORDS = {
    "told|tells?|telling|untold": (EVERYWHERE, "report, render, message; distinguish; publish"),
    "said": (EVERYWHERE, "declared, given, stated, reported"),
    "the own": (EVERYWHERE, "its"),
    "burdens?|burdened": (EVERYWHERE, "(artificial) delay"),
    "roams?|roaming|roamed": (EVERYWHERE, "widened"),
    "hostile": (EVERYWHERE, "adversarial, untrusted"),
    "owed": (EVERYWHERE, "pending"),
    "trails?": (EVERYWHERE, "proxy state"),
    "turns? behind|out of turn|of one turn": (EVERYWHERE, "iteration late, loop body"),
    "pieces?": (CORE, "region of a buffer, part"),
    "anew": (EVERYWHERE, "again"),
    "for ever": (EVERYWHERE, "forever"),
    "looked at|looks at|looked into": (EVERYWHERE, "checked, examined, inspected"),
    "stands for|stand for|standing for": (EVERYWHERE, "represents, models"),
    "speaks of|speak of|spoken of": (EVERYWHERE, "covers, refers to"),
    "can go on|cannot go on": (EVERYWHERE, "can proceed"),
    "no multiple of": (EVERYWHERE, "not a multiple of"),
}
OWN_WORDS_ALLOWED = {
    ("docs/reference/attacks.md", "told"),  # names of kernels and their mutants
    ("docs/reference/attacks.md", "the own"),
    ("titan/scheduling/rup.py", "trail"),  # of a solver: the assignments so far, in their order
}

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


def native_files() -> list[Path]:
    """C, C++ and their templates, of the cores, the emulation and the backends."""
    return [
        path
        for below in ("titan", "backends")
        for path in sorted((ROOT / below).rglob("*"))
        if path.suffix in {".c", ".h", ".cuh", ".j2"}
    ]


def test_modules_are_not_too_long():
    files = [*python_files(), *native_files()]
    lengths = {name_of(path): content(path).count("\n") for path in files}
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
    """Room below titan/ -> rooms that it may import, read from the table of the document."""
    table: dict[str, set[str]] = {}
    rows = re.findall(r"^\| `titan/([\w/]+)/` \|.*\| ([^|]*?) \|$", content(ARCHITECTURE), re.M)
    for room, allowed in rows:
        if allowed == "all":
            table[room] = set(table)
        else:
            table[room] = set(allowed.split(", ")) - {"nothing"}
    unknown = {name for names in table.values() for name in names} - set(table)
    assert not unknown, (
        f"the table of {name_of(ARCHITECTURE)} allows what it does not list: {unknown}"
    )
    return table


def room_of(module: str) -> str | None:
    """The room of the table that a module stands in: the longest row that its path begins with.

    None for what is not of the package, and for modules directly below titan/.
    """
    pieces = module.split(".")
    if pieces[0] != "titan":
        return None
    for length in range(len(pieces) - 1, 0, -1):
        room = "/".join(pieces[1 : 1 + length])
        if room in may_import():
            return room
    return None


def in_common(module: str) -> bool:
    return module.split(".")[:2] == ["titan", COMMON]


@cache
def arrows() -> dict[tuple[str, str], list[str]]:
    """(room, other room) -> the imports between them; those of foundation/ are everybody's."""
    found: dict[tuple[str, str], list[str]] = {}
    for path in python_files("titan"):
        here = room_of(name_of(path).removesuffix(".py").replace("/", "."))
        for module in imports(path) if here else ():
            other = room_of(module)
            if other is not None and other != here and not in_common(module):
                assert here is not None
                found.setdefault((here, other), []).append(f"{name_of(path)} imports {module}")
    return found


def test_imports_stay_within_the_boundaries():
    wrong = [
        line
        for (here, other), lines in arrows().items()
        if other not in may_import()[here]
        for line in lines
    ]
    assert wrong == []


def test_foundation_imports_nothing_of_the_rest():
    wrong = [
        f"{name_of(path)} imports {module}"
        for path in python_files(f"titan/{COMMON}")
        for module in imports(path)
        if room_of(module) is not None and not in_common(module)
    ]
    assert wrong == []


def test_every_allowance_is_used():
    """A row that allows what nothing imports hides the next arrow that should not be there."""
    everything = set(may_import())
    unused = [
        f"{room} may import {other}"
        for room, others in may_import().items()
        if others != everything - {room}  # `all`: the command line
        for other in sorted(others)
        if (room, other) not in arrows()
    ]
    assert unused == []


def test_every_folder_has_its_boundaries():
    folders = {path.parent.relative_to(ROOT).as_posix() for path in python_files("titan")}
    modules = [folder.replace("/", ".") for folder in sorted(folders)]
    wings = {room.split("/")[0] for room in may_import()}
    without = [m for m in modules if m != "titan" and room_of(m) is None]
    assert {m.removeprefix("titan.") for m in without} <= wings, "a room without a row"
    assert len(may_import()) > 20, "the table is read"


def test_the_boundaries_have_no_cycle():
    left = {room: set(others) for room, others in may_import().items()}
    while left:
        free = [room for room, others in left.items() if not others & set(left)]
        assert free, f"a cycle among {sorted(left)}"
        for room in free:
            del left[room]


@cache
def imports_of_modules() -> dict[str, set[str]]:
    """Module of titan -> modules of titan that it imports, inside of functions too."""
    names = {
        name_of(path).removesuffix(".py").removesuffix("/__init__").replace("/", "."): path
        for path in python_files("titan")
    }
    found: dict[str, set[str]] = {}
    for name, path in names.items():
        found[name] = set()
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Import):
                found[name] |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                module = node.module or ""
                for alias in node.names:
                    inner = f"{module}.{alias.name}"
                    found[name].add(inner if inner in names else module)
        found[name] &= set(names)
    return found


def test_no_modules_import_each_other():
    """An import inside of a function may be there for the start-up time, not to hide a circle."""
    left = {name: set(others) for name, others in imports_of_modules().items()}
    while free := [name for name, others in left.items() if not others & set(left) - {name}]:
        for name in free:
            del left[name]
    assert sorted(left) == [], "these modules import each other, or stand above such"


@cache
def trusted() -> tuple[str, ...]:
    """The files and folders that the document calls trusted."""
    section = content(ARCHITECTURE).split("## What is trusted")[1].split("\n## ")[0]
    listed = re.findall(r"`(titan/[\w/.]+)`", section.split("Everything that searches")[0])
    return tuple(path.rstrip("/") for path in listed)


def test_the_trusted_part_imports_nothing_that_searches():
    assert len(trusted()) > 5, "the list is read"
    assert [path for path in trusted() if not (ROOT / path).exists()] == []
    wrong = [
        f"{name_of(path)} imports {module}"
        for path in python_files(*trusted())
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


def test_no_change_stands_twice():
    """As a merge leaves it where an entry was moved or rewritten."""
    entries = re.split(r"\n(?=- )", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
    begins = Counter(" ".join(entry.split())[:120] for entry in entries[1:])
    assert [text for text, count in begins.items() if count > 1] == []


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


@cache
def lower_texts() -> dict[str, str]:
    """The text of every file, in lower case, by its path from the root."""
    paths = dict.fromkeys((*text_files(), *native_files()))
    return {name_of(path): content(path).lower() for path in paths}


@cache
def own_words(word: str, places: tuple[str, ...]) -> list[tuple[str, int, str]]:
    """Path, line and word of each use in some places; a word ends where no letter follows."""
    pattern = re.compile(rf"(?<![a-z])(?:{word})(?![a-z])")
    stems = [alternative.partition("?")[0].rstrip("s") for alternative in word.split("|")]
    return [
        (name, number, match[0])
        for name, text in lower_texts().items()
        if name.startswith(places) and any(stem in text for stem in stems)
        for number, line in enumerate(text.split("\n"), start=1)
        if any(stem in line for stem in stems)
        for match in pattern.finditer(line)
    ]


@pytest.mark.parametrize("word", OWN_WORDS)
def test_words_that_have_a_standard_term_do_not_come_back(word):
    places, instead = OWN_WORDS[word]
    found = [use for use in own_words(word, places) if (use[0], use[2]) not in OWN_WORDS_ALLOWED]
    assert found == [], f"say: {instead}"


def test_every_allowed_word_is_used():
    found = {
        (path, use) for word, (places, _) in OWN_WORDS.items()
        for path, _, use in own_words(word, places)
    }  # fmt: skip
    assert found >= OWN_WORDS_ALLOWED


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
    assert len(native_files()) > 30
    assert ROOT / ".ci" / "run" in text_files()
