"""Bars on a terminal, and lines where there is none."""

import logging
import re
import sys

from tqdm.contrib.logging import logging_redirect_tqdm

from st_static import progress
from st_static.progress import bar

TIME = r"\d\d:\d\d:\d\d"


def work() -> None:
    """Three steps of four, with a line of a stage between them."""
    with bar("teacher", 4, "token") as steps:
        for step in range(3):
            steps.set_postfix_str("9 texts/s")
            if step == 1:
                logging.getLogger("stage").warning("told between")
            steps.update()


def test_in_a_log_a_line_says_what_is_done_and_the_time_left(capsys, monkeypatch):
    now = 0.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    with bar("teacher", 4, "token") as steps:
        for seconds in (30, 31, 59, 1, 200):
            now += seconds
            steps.set_postfix_str("9 texts/s")
            steps.update()
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3  # after 61, 121 and 321 seconds
    told = rf"{TIME} teacher:  25%, 1/4 tokens, [\d:?]+ left, 9 texts/s"
    assert re.fullmatch(told, lines[0])


def test_lines_and_a_log_do_not_erase_each_other(capsys, monkeypatch):
    monkeypatch.setattr(progress, "_SECONDS", 0.0)
    logger = logging.getLogger("stage")
    logger.addHandler(handler := logging.StreamHandler(sys.stderr))
    try:
        with logging_redirect_tqdm([logger]):
            work()
    finally:
        logger.removeHandler(handler)
    told = capsys.readouterr().err
    assert "told between\n" in told
    assert "\r" not in told
    assert all("teacher: " in line or line == "told between" for line in told.splitlines())


def test_on_a_terminal_it_is_a_bar(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    work()
    assert re.search(r"\rteacher:   0%\|.*\|", capsys.readouterr().err)
