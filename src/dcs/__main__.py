"""`python -m dcs`: the command, as `torchrun -m dcs fit ...` runs it."""

from dcs.cli import main

main()
