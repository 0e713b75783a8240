"""The curve of a tuning, and the style of all figures."""

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from st_static.ensemble.ensemble import Ensemble
from st_static.evaluate.analysis import lengths, norms
from st_static.evaluate.figure_style import SIZE, new_axes
from st_static.evaluate.tuning_figure import draw_tuning
from st_static.publish.card import figures as card_figures


class Fixed:
    def encode(self, texts):
        return np.ones((len(texts), 2))


def test_the_curve_of_a_tuning_has_a_panel_a_weight(tmp_path):
    target = np.log([1.0, 2.0, 0.5])
    tuning = Ensemble([Fixed()] * 3).tune(
        lambda ensemble: -float(np.abs(np.log(ensemble.weights) - target).sum())
    )
    files = draw_tuning(tuning, tmp_path / "tuning")
    assert [file.name for file in files] == ["tuning.svg", "tuning.png"]
    tree = ElementTree.parse(files[0])
    panels = [e for e in tree.iter() if str(e.get("id", "")).startswith("axes_")]
    assert len(panels) == 2
    again = draw_tuning(tuning, tmp_path / "again")
    assert again[0].read_bytes() == files[0].read_bytes()


def test_analyses_and_cards_have_one_style():
    assert card_figures.new_axes is lengths.new_axes is norms.new_axes is new_axes
    figure, axes = new_axes()
    assert tuple(figure.get_size_inches()) == SIZE
    assert not axes.spines["top"].get_visible()


def test_one_member_has_no_curve(tmp_path):
    tuning = Ensemble([Fixed()]).tune(lambda ensemble: 1.0)
    with pytest.raises(ValueError, match="no curve"):
        draw_tuning(tuning, tmp_path / "tuning")
    assert not list(tmp_path.iterdir())
