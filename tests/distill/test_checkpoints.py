"""When long work is written down: twice a minute, less often where that takes long, never torn."""

import pytest

from st_static.distill.checkpoints import checkpoints


class Work:
    """Steps that take time, and writing that does, by a clock of its own."""

    def __init__(self, seconds_to_write: float = 0.0) -> None:
        self.now = 0.0
        self.done = 0
        self.seconds_to_write = seconds_to_write
        self.written: list[tuple[float, int]] = []

    def write(self) -> None:
        self.now += self.seconds_to_write
        self.written.append((self.now, self.done))

    def run(self, n_steps: int, seconds: float) -> None:
        with checkpoints(self.write, lambda: self.now) as checkpoint:
            for _ in range(n_steps):
                self.now += seconds
                with checkpoint.whole():
                    self.done += 1


def test_work_is_written_every_25_seconds_and_at_its_end() -> None:
    work = Work()
    work.run(7, seconds=10)
    assert work.written == [(30, 3), (60, 6), (70, 7)]


def test_short_work_is_written_once() -> None:
    work = Work()
    work.run(3, seconds=1)
    assert work.written == [(3, 3)]


@pytest.mark.parametrize(("seconds_to_write", "apart"), [(1, 25), (3, 30), (30, 45), (300, 45)])
def test_writing_takes_a_tenth_of_the_time_but_less_than_a_minute_is_at_stake(
    seconds_to_write: float, apart: float
) -> None:
    work = Work(seconds_to_write)
    work.run(200, seconds=1)
    first, second = work.written[1:3]
    assert second[1] - first[1] == apart


def test_where_nothing_was_done_nothing_is_written() -> None:
    work = Work()
    work.run(0, seconds=1)
    assert work.written == []


@pytest.mark.parametrize(("is_inside", "written"), [(False, [(20, 2)]), (True, [])])
def test_an_error_inside_a_step_leaves_what_was_written_before(
    is_inside: bool, written: list
) -> None:
    work = Work()

    def fail_in_the_second_step() -> None:
        with checkpoints(work.write, lambda: work.now) as checkpoint:
            for _ in range(2):
                work.now += 10
                with checkpoint.whole():
                    work.done += 1
                    if is_inside and work.done == 2:
                        raise KeyboardInterrupt
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail_in_the_second_step()
    assert work.written == written
