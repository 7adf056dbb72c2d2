"""What the page on the emulated device shows runs as it stands there."""

import re

from titan.foundation.resources import root

PAGE = root("protocols").parent / "docs" / "how-to" / "run_without_a_gpu.md"


def test_the_example_of_the_page_runs():
    (block,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    exec(compile(block, str(PAGE), "exec"), {})
