"""text that is not well-formed YAML

## What it means

The file cannot be read as one YAML 1.2 document: brackets do not close, indentation does not line
up, a tab indents, or it contains a tag or a second document.

## Why it is a fault

Nothing of the kernel can be judged before the text is understood, and guessing what was meant could
verify another kernel than the one written.

## Example

    rings:
      operands: {buffers: [A, B], depth: 4     # the brace is never closed

## What to do

Look at the place of the arrow; the fault is there or just before. Indent with spaces, close what is
open, and put text with other special characters in quotes.

## Source

YAML 1.2.2, sections 6.1 (indentation) and 7.3.3 (plain scalars); tags and several documents are
left out of the language on purpose.
"""

CODE = "TTN001"
NAME = "invalid-syntax"
