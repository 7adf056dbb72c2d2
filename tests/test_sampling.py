"""Which tests a run takes: parts that have each test once, and one of each heavy function."""

from __future__ import annotations

import pytest

from tests.sampling import of_part, representatives

NAMES = [f"tests/a/test_b.py::test_c[{number}]" for number in range(200)]


def test_parts_have_each_test_once_and_are_alike_in_size():
    sizes = []
    for count in (1, 5, 12):
        parts = [[x for x in NAMES if of_part(x, f"{k}/{count}")] for k in range(1, count + 1)]
        assert sorted(name for part in parts for name in part) == sorted(NAMES)
        sizes.append(min(map(len, parts)))
    assert sizes[0] == 200 and sizes[1] > 200 / 5 / 2 and sizes[2] > 200 / 12 / 2


@pytest.mark.parametrize("wanted", ["", "3", "3/", "/3", "0/3", "4/3", "-1/3", "a/b", "1/2/3"])
def test_what_is_no_part_is_refused(wanted):
    with pytest.raises(ValueError, match="part"):
        of_part(NAMES[0], wanted)


def test_the_first_of_each_heavy_function_that_has_no_light_test_is_taken():
    tests = [
        ("a.py::mixed[1]", True, False),
        ("a.py::mixed[2]", False, False),
        ("a.py::heavy[1]", True, False),
        ("a.py::heavy[2]", True, False),
        ("b.py::heavy", True, False),
        ("b.py::long", True, True),
        ("b.py::light", False, False),
    ]
    assert representatives(tests) == {"a.py::heavy[1]", "b.py::heavy"}


def test_this_run_has_marked_them(request):
    """The marks of the tests that were collected with this one."""
    for item in request.session.items:
        if item.get_closest_marker("sampled"):
            assert item.get_closest_marker("heavy") and not item.get_closest_marker("long")
