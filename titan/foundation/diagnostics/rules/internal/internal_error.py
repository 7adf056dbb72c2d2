"""a fault of TITAN itself

## What it means

TITAN met a situation that its authors believed to be impossible.

## Why it is a fault

No verdict is given. The exit code is 4, never 0 or 1, so that a fault of the tool cannot pass for a
result.

## Example

    titan verify kernel.yaml              # exit code 4

## What to do

Run again with TITAN_DEBUG=1 for the traceback, and report it with the input and the version.

## Source

The exit codes are listed in CONTRIBUTING.md.
"""

CODE = "TTN901"
NAME = "internal-error"
