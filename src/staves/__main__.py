"""`python -m staves` is the `staves` command."""

from staves.cli import main

main()
