"""The start of `titan`: an interrupt while the command line is imported ends the process.

It does so as the signal does, without the traceback of an import.
"""

import signal


def main() -> None:
    """The console script."""
    early = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if early:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from titan.cli.main import main as command_line

    if early:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    command_line()
