"""Index expressions of the kernel language, as text."""

from __future__ import annotations


def earlier(variable: str, iterations: int) -> str:
    """`variable - iterations` as one writes it; a negative number of iterations lies ahead."""
    if variable.isdigit():
        return str(int(variable) - iterations)
    if not iterations:
        return variable
    return f"{variable} - {iterations}" if iterations > 0 else f"{variable} + {-iterations}"


def inner(expression: str) -> str:
    """The expression as an operand: in brackets where it is more than a name."""
    return f"({expression})" if " " in expression else expression
