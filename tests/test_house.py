"""What `benchmarks.house` counts does not grow: types, parameters, names, docstrings, errors."""

from __future__ import annotations

from benchmarks import house

ANY_MAX = 150
REPEATED_NAMES = {
    # A litmus test and a sync program are two languages with the same field's words; the two
    # enumerations of one name are kept apart, so that the models check each other.
    "Assign", "Barrier", "Branch", "Fence", "Proxy", "Scope", "Space",
    # The loop of a scheduler and the loop statement of a program, with their operations.
    "Loop", "Operation",
    # The builder is what users name, the model is what all others name.
    "Kernel",
}  # fmt: skip


def test_any_is_rare():
    assert len(house.any_uses()) < ANY_MAX


def test_signatures_are_short_outside_the_command_line():
    long = [row for row in house.long_signatures() if not row[0].startswith(house.COMMAND_LINE)]
    assert long == []


def test_a_class_has_a_name_of_its_own():
    assert {name for _, _, name in house.repeated_names()} == REPEATED_NAMES


def test_what_is_public_has_a_docstring():
    missing, total = house.undocumented()
    assert missing == []
    assert total > 3000


def test_exceptions_are_in_one_tree():
    assert house.rootless_exceptions() == []
