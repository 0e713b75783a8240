"""End the Ray cluster whose first node listens at a port; `ray stop` would end all of a machine.

python tests/stop_ray.py PORT
"""

import contextlib
import sys

import psutil

names = tuple(f"{mark}{sys.argv[1]}" for mark in ("gcs_server_port=", ":"))
for process in psutil.process_iter(["cmdline"]):
    options = [word for word in process.info["cmdline"] or [] if word.startswith("--")]
    if any(option.endswith(names) for option in options):
        for each in [*process.children(recursive=True), process]:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()
