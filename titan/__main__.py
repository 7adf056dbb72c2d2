"""`python -m titan` is `titan`."""

from titan.cli.start import main

main()
