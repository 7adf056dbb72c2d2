"""a language version that this TITAN does not read

## What it means

The value of `titan:` at the head of the file is not a version of the kernel language that this
release knows.

## Why it is a fault

A later version may give the same words another meaning.

## Example

    titan: 99

## What to do

Use a release of TITAN that knows the version, or change the number after reading what changed.

## Source

`titan schema` prints the schema of the newest version known.
"""

CODE = "TTN016"
NAME = "unsupported-version"
