"""Running commands as a person does, at a terminal."""

import fcntl
import os
import pty
import struct
import termios


def run_at_a_terminal(
    command: list[str], n_columns: int = 100, typed: bytes = b""
) -> tuple[int, str]:
    """Exit status of a command, and all that its terminal was sent, with what is typed."""
    process, terminal = pty.fork()
    if process == 0:
        size = struct.pack("HHHH", 40, n_columns, 0, 0)
        fcntl.ioctl(0, termios.TIOCSWINSZ, size)
        # Every terminal says what it is; libraries draw no bar where nothing does.
        os.execve(command[0], command, {"TERM": "xterm", **os.environ})
    os.write(terminal, typed)
    shown = b""
    while True:
        try:
            part = os.read(terminal, 65_536)
        except OSError:  # so Linux tells of its end
            part = b""
        if not part:
            break
        shown += part
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), shown.decode()
