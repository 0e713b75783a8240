"""The commands of `st-static`, a file each: `run(arguments)` checks them, then loads libraries, and
returns the exit status."""
