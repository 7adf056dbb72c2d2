"""Counts what the house rules refer to, over titan/: types, parameters, names, docstrings.

    python -m benchmarks.house [--by-room] [--list ROW]

`Any`: uses of the name outside of imports. Parameters: functions with 8 or more, those of the
command line apart. Names: classes defined at the top level of two or
more modules, private ones apart. Docstrings: public functions, methods and classes; overrides of a
documented method of the same name in the same module, and dunder methods, need none. Exceptions:
classes that derive from a builtin exception and not from the tree of `titan.foundation.errors`.
"""

from __future__ import annotations

import argparse
import ast
import builtins
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PARAMETERS_MANY = 8
COMMAND_LINE = ("titan/cli/", "titan/device/__main__.py")
BUILTIN_EXCEPTIONS = {
    name
    for name, value in vars(builtins).items()
    if isinstance(value, type) and issubclass(value, BaseException)
}
Found = list[tuple[str, int, str]]  # path, line, what


@cache
def modules() -> tuple[tuple[str, ast.Module], ...]:
    """The modules of titan/ by path."""
    return tuple(
        (path.relative_to(ROOT).as_posix(), ast.parse(path.read_text(encoding="utf-8")))
        for path in sorted((ROOT / "titan").rglob("*.py"))
    )


@cache
def parts() -> tuple[tuple[str, ast.AST], ...]:
    """The names `Any`, the functions and the classes of all modules, each with its path."""
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    return tuple(
        (path, node)
        for path, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, kinds) or (isinstance(node, ast.Name) and node.id == "Any")
    )


def any_uses() -> Found:
    """Uses of `Any`."""
    return [(path, node.lineno, "Any") for path, node in parts() if isinstance(node, ast.Name)]


def long_signatures() -> Found:
    """Functions with many parameters, `self` not counted."""
    found: Found = []
    for path, node in parts():
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            given = node.args
            names = [a.arg for a in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
            count = len([name for name in names if name not in ("self", "cls")])
            count += (given.vararg is not None) + (given.kwarg is not None)
            if count >= PARAMETERS_MANY:
                found.append((path, node.lineno, f"{node.name} ({count})"))
    return found


def repeated_names() -> Found:
    """Public classes of one name in several modules."""
    places: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for path, tree in modules():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append((path, node.lineno))
    return [
        (path, line, name)
        for name, found in sorted(places.items())
        if len(found) > 1
        for path, line in found
    ]


def undocumented() -> tuple[Found, int]:
    """Public functions, methods and classes without a docstring, and how many there are in all."""
    found: Found = []
    total = 0

    def look(path: str, body: list[ast.stmt], documented: set[str]) -> None:
        nonlocal total
        for node in body:
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                continue
            if node.name.startswith("_"):
                continue
            total += 1
            if ast.get_docstring(node) is None and node.name not in documented:
                found.append((path, node.lineno, node.name))
            if isinstance(node, ast.ClassDef):
                look(path, node.body, documented)

    for path, tree in modules():
        documented = {
            inner.name
            for node in tree.body
            if isinstance(node, ast.ClassDef)
            for inner in node.body
            if isinstance(inner, ast.FunctionDef) and ast.get_docstring(inner)
        }
        look(path, tree.body, documented)
    return found, total


def rootless_exceptions() -> Found:
    """Exception classes that derive from a builtin one directly."""
    return [
        (path, node.lineno, node.name)
        for path, node in parts()
        if path != "titan/foundation/errors.py"
        if isinstance(node, ast.ClassDef)
        and any(isinstance(base, ast.Name) and base.id in BUILTIN_EXCEPTIONS for base in node.bases)
    ]


def room(path: str) -> str:
    """The folder that a path stands in."""
    return path.rsplit("/", 1)[0]


def main() -> None:
    """Prints the table, or the places of one row of it."""
    parser = argparse.ArgumentParser(description=__doc__, add_help=True)
    parser.add_argument("--by-room", action="store_true")
    parser.add_argument(
        "--list", choices=["any", "parameters", "names", "docstrings", "exceptions"]
    )
    options = parser.parse_args()
    missing, total = undocumented()
    rows: dict[str, Found] = {
        "any": any_uses(),
        "parameters": long_signatures(),
        "names": repeated_names(),
        "docstrings": missing,
        "exceptions": rootless_exceptions(),
    }
    if options.list:
        for path, line, text in rows[options.list]:
            print(f"{path}:{line} {text}")
        return
    outside = [row for row in rows["parameters"] if not row[0].startswith(COMMAND_LINE)]
    print(f"uses of Any                                    {len(rows['any'])}")
    print(
        f"functions with {PARAMETERS_MANY} or more parameters             {len(rows['parameters'])}"
    )
    print(f"  of these outside the command line            {len(outside)}")
    print(f"names defined in several modules               {len({r[2] for r in rows['names']})}")
    print(f"public definitions without docstring           {len(missing)} of {total}")
    print(f"exceptions outside of the one tree             {len(rows['exceptions'])}")
    if options.by_room:
        for name, found in rows.items():
            print(f"\n{name}")
            for place, count in Counter(room(path) for path, _, _ in found).most_common():
                print(f"  {count:5} {place}")


if __name__ == "__main__":
    main()
