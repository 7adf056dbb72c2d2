"""a file that cannot be read as text

## What it means

The path does not name a readable regular file, or its bytes are not UTF-8, or it holds control
characters that YAML forbids.

## Why it is a fault

A verdict refers to a text; without one there is nothing to refer to. Control characters are refused
because they can make a terminal show another text than the one judged.

## Example

    titan verify no_such_file.yaml

## What to do

Check the path and its permissions, save the file as UTF-8, and remove the character at the arrow.

## Source

YAML 1.2.2, sections 5.1 (character set) and 5.2 (character encodings).
"""

CODE = "TTN002"
NAME = "unreadable-file"
