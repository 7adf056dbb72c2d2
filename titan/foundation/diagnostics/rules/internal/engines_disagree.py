"""engines that disagree on one program

## What it means

Two engines that decide the same question gave different verdicts, or a replay did not confirm a
trace, or a certificate was rejected.

## Why it is a fault

At least one engine has a fault, so neither verdict is given. The exit code is 4.

## Example

    titan verify --engine both kernel.yaml

## What to do

Report it with the input; until then trust neither verdict.

## Source

What finds is not trusted, what re-checks is; a disagreement is always an error.
"""

CODE = "TTN902"
NAME = "engines-disagree"
