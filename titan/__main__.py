"""`python -m titan` is `titan`."""

from titan.cli.main import main

main()
