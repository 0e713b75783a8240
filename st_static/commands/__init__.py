"""The commands of `st-static`, one file each: arguments in, what the user reads out.

Each has `run(arguments)`, which returns the exit status, and loads libraries only after it has
checked its arguments. What other commands do as well is a function with typed options.
"""
