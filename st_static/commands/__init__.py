"""The commands of `st-static`, one file each: arguments in, what the user reads out.

Each has `run(arguments)`, which returns the exit status, and loads libraries only after it has
checked its arguments. Commands whose work others do as well have it as a function with typed
options: `build_model`, `evaluate`, `write`, `publish_folder`.
"""
