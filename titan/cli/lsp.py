"""`titan lsp`: the language server."""

from __future__ import annotations

import click


@click.command()
@click.option(
    "--stdio", is_flag=True, help=("Communicate over stdin and stdout (the only transport).")
)
def lsp(stdio: bool) -> None:
    """Serve editors: diagnostics, hover, definitions, completion (needs the extra `lsp`).

    docs/how-to/editors.md has the settings of VS Code and Neovim.
    """
    del stdio
    try:
        from titan.editor.server import server
    except ModuleNotFoundError as missing:
        if missing.name not in ("pygls", "lsprotocol"):
            raise
        from titan.foundation.extras import brought_by

        text = f"the language server needs pygls: {brought_by('lsp')}"
        raise click.UsageError(text) from None
    server().start_io()
