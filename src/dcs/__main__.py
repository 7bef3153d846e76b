"""`python -m dcs`: the command, as `torchrun -m dcs fit ...` and `accelerate launch -m dcs` call it."""

from dcs.cli import main

main()
