"""What figures have in common: one meaning of colours and marks, and labels that cover nothing."""

import numpy as np
import polars as pl
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.transforms import Bbox

from st_static.evaluate.analysis import heat_map, lengths
from st_static.evaluate.analysis.explain import Explanation, Word
from st_static.evaluate.figure_style import LESS, MORE, draw_signed, new_axes, write_plainly
from st_static.evaluate.point_labels import text_box
from st_static.evaluate.speed import FAST, MODEL2VEC, SENTENCE_TRANSFORMERS, MeasuredSpeed
from st_static.evaluate.speed_figure import draw_quality_and_speed


def rgb(color):
    return np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) / 255


def test_numbers_that_round_to_zero_have_no_sign():
    _, axes = new_axes()
    values = np.array([[-0.04, 0.0, 0.04], [-1.25, 0.05, 2.0]])
    draw_signed(axes, values, digits=1, fontsize=8)
    said = [text.get_text() for text in axes.texts]
    assert said == ["0", "0", "0", "\N{MINUS SIGN}1.2", "+0.1", "+2.0"]


def test_shares_have_the_colours_of_all_numbers_with_a_sign(monkeypatch):
    saved = []
    monkeypatch.setattr(heat_map, "save", lambda figure, _: saved.append(figure))
    words = [Word(text, [text], [2], True) for text in ("one", "two")]
    shares = np.array([[0.5, -0.5], [0.0, 0.1]])
    heat_map.draw_heat_map(Explanation(words, words, shares), "pair.png")
    cells = saved[0].axes[0].images[0]
    more, less = (cells.cmap(cells.norm(share))[:3] for share in (0.4, -0.4))
    for near, far, color in ((more, less, MORE), (less, more, LESS)):
        assert np.abs(near - rgb(color)).max() < 0.2 < np.abs(far - rgb(color)).max()


def test_values_over_bars_leave_the_title_free(monkeypatch):
    saved = []
    monkeypatch.setattr(lengths, "save_both", lambda figure, _: saved.append(figure))
    rows = {"tokens": ["1-5", "6-10", "11-20", "all"], "agreement": [66.6, None, 83.7, 80.0]}
    lengths.draw_agreement(pl.DataFrame(rows), "agreement")
    [axes] = saved[0].axes
    assert [bar.get_height() for bar in axes.patches] == [66.6, 83.7]
    saved[0].draw_without_rendering()
    renderer = FigureCanvasAgg(saved[0]).get_renderer()
    title = axes.title.get_window_extent(renderer)
    labels = [text.get_window_extent(renderer) for text in axes.texts]
    assert len(labels) == 2
    assert max(label.y1 for label in labels) < title.y0


def test_a_model_without_others_has_its_label_beside_its_line():
    figure, axes = new_axes()
    speeds = [
        MeasuredSpeed("ours", encoder, speed)
        for encoder, speed in (
            (FAST, 230_000),
            (MODEL2VEC, 93_000),
            (SENTENCE_TRANSFORMERS, 39_000),
        )
    ]
    look = {"ours": "a name of some length"}, {"ours": MORE}
    draw_quality_and_speed(axes, speeds, {"ours": 60.0}, *look)
    [label] = axes.texts
    box = text_box(label, FigureCanvasAgg(figure).get_renderer())
    line = Bbox(axes.transData.transform([[39_000, 60], [230_000, 60]]))
    assert not line.overlaps(box)


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ((30_000, 300_000), {"40,000", "100,000", "200,000"}),
        ((100, 1_000_000), {"100", "1,000", "10,000", "100,000", "1,000,000"}),
    ],
)
def test_a_log_axis_has_plain_numbers_also_where_it_is_short(limits, expected):
    figure, axes = new_axes()
    axes.set(xscale="log", xlim=limits)
    write_plainly(axes.xaxis, "{:,.0f}")
    figure.draw_without_rendering()
    ticks = [*axes.xaxis.get_majorticklabels(), *axes.xaxis.get_minorticklabels()]
    said = {tick.get_text() for tick in ticks} - {""}
    assert expected <= said
    assert all(text.replace(",", "").isdigit() for text in said)
