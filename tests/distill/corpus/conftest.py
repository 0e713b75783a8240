"""Bars of the corpus stages, which are shown at a terminal alone."""

from types import SimpleNamespace

import pytest

from st_static.distill import engines


class _Bar:
    """One that is drawn nowhere."""

    def __init__(self, told: dict[str, str], clock: SimpleNamespace, label: str) -> None:
        self._told, self._clock, self._label = told, clock, label

    def __enter__(self) -> "_Bar":
        self._clock.now = 1.0
        return self

    def __exit__(self, *error: object) -> None:
        self._clock.now = 0.0

    def update(self) -> None: ...

    def set_postfix_str(self, text: str, refresh: bool) -> None:
        self._told[self._label] = text


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What each bar tells at its end, by its label, if all took a second."""
    told: dict[str, str] = {}
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(engines, "time", SimpleNamespace(perf_counter=lambda: clock.now))
    monkeypatch.setattr(engines, "bar", lambda label, total, unit: _Bar(told, clock, label))
    return told
