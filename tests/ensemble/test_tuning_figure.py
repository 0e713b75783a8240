"""The figure of an ensemble's tuning."""

from xml.etree import ElementTree

import numpy as np
import pytest

from st_static import Ensemble, draw_tuning


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


def test_one_member_has_no_curve(tmp_path):
    tuning = Ensemble([Fixed()]).tune(lambda ensemble: 1.0)
    with pytest.raises(ValueError, match="no curve"):
        draw_tuning(tuning, tmp_path / "tuning")
    assert not list(tmp_path.iterdir())
