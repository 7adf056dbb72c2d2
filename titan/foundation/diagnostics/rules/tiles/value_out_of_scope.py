"""a value that is not seen where it is used

## What it means

Operations see what is above them: `body` sees `before` and the carried values, `after` sees
`before` and the carried values as the last iteration left them.

## Why it is a fault

The value does not exist there: it is computed later, or once an iteration.

## Example

    after:
      - c: {store: product, to: "C[m * rows, n * columns]"}     # product is of the body

## What to do

Carry the value from iteration to iteration, or move the operation.

## Source

The scopes in docs/reference/tile_language.md.
"""

CODE = "TTN605"
NAME = "value-out-of-scope"
