"""Figures: one meaning of colours, any script that a font has, and labels that cover nothing."""

import itertools
import warnings

import matplotlib as mpl
import numpy as np
import polars as pl
import pytest
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen
from matplotlib import font_manager
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox
from PIL import Image

from st_static.encode.explain import Explanation, Word
from st_static.evaluate import figures
from st_static.evaluate.figures import (
    LESS,
    MORE,
    can_draw,
    draw_by_task,
    draw_heat_map,
    draw_quality_and_speed,
    draw_signed,
    fonts_for,
    label_points,
    new_axes,
    write_plainly,
)
from st_static.evaluate.scores import ModelScores, compare_by_task
from st_static.evaluate.speed import FAST, MODEL2VEC, SENTENCE_TRANSFORMERS, MeasuredSpeed

JAPANESE = "東京タワー"


@pytest.fixture
def installed_fonts(monkeypatch):
    """The fonts of the machine beside matplotlib's own; none at first."""
    files = []
    monkeypatch.setattr(font_manager, "findSystemFonts", lambda: files)
    manager = font_manager.fontManager
    monkeypatch.setattr(manager, "ttflist", [f for f in manager.ttflist if "DejaVu" in f.name])
    return files


@pytest.fixture
def japanese_font(installed_fonts, tmp_path):
    """An installed font with a black square for each Japanese character."""
    pen = TTGlyphPen(None)
    pen.moveTo((0, 0))
    for corner in ((0, 800), (800, 800), (800, 0)):
        pen.lineTo(corner)
    pen.closePath()
    names = [".notdef", *(f"g{ord(c):x}" for c in JAPANESE)]
    font = FontBuilder(1000, isTTF=True)
    font.setupGlyphOrder(names)
    font.setupCharacterMap({ord(c): f"g{ord(c):x}" for c in JAPANESE})
    font.setupGlyf(dict.fromkeys(names, pen.glyph()))
    font.setupHorizontalMetrics(dict.fromkeys(names, (900, 0)))
    font.setupHorizontalHeader(ascent=900, descent=-100)
    font.setupNameTable({"familyName": "IPAexGothic", "styleName": "Regular"})
    font.setupOS2()
    font.setupPost()
    font.save(tmp_path / "squares.ttf")
    installed_fonts.append(str(tmp_path / "squares.ttf"))


def explanation(first, second):
    words = [[Word(text, [text], [1], True, 0) for text in texts] for texts in (first, second)]
    return Explanation(*words, np.full((len(first), len(second)), 0.1))


def drawn(file, first, second):
    """The figure's pixels; drawing it must not warn."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        draw_heat_map(explanation(first, second), file)
    return np.asarray(Image.open(file).convert("L"))


def test_japanese_is_drawn_in_a_font_that_has_it(japanese_font, tmp_path, caplog):
    assert can_draw(f"{JAPANESE} tower")
    pixels = drawn(tmp_path / "ja.png", [JAPANESE], ["tower"])
    assert caplog.text == ""
    # Five squares of about ten points stand beside the map: more black than letters have.
    assert (pixels[:, : pixels.shape[1] // 3] < 50).sum() > 5 * 100


def test_fonts_are_those_of_before_afterwards(japanese_font):
    before = list(mpl.rcParams["font.family"])
    with fonts_for(JAPANESE):
        assert mpl.rcParams["font.family"] == [*before, "IPAexGothic"]
    assert mpl.rcParams["font.family"] == before


def test_what_no_font_has_is_said_once(installed_fonts, tmp_path, caplog):
    broken = tmp_path / "ipaexg.ttf"
    broken.write_bytes(b"no font")
    installed_fonts.append(str(broken))
    assert not can_draw(f"{JAPANESE} tower")
    drawn(tmp_path / "ja.png", [JAPANESE, "東", "Größe"], ["tower"])
    [record] = caplog.records
    assert "No installed font has the characters タ ワ ー 京 東:" in record.getMessage()
    assert "apt-get install fonts-noto-cjk" in record.getMessage()


@pytest.mark.parametrize("n_words", [1, 12])
def test_long_words_leave_room_for_the_map(tmp_path, n_words):
    pixels = drawn(tmp_path / "long.png", ["x" * 300] * n_words, ["y" * 300] * n_words)
    assert pixels.shape[1] < 3000


def test_long_words_are_cut(monkeypatch):
    saved = []
    monkeypatch.setattr(figures, "save", lambda figure, _: saved.append(figure))
    draw_heat_map(explanation(["x" * 24, "x" * 25], ["y"]), "pair.png")
    labels = [label.get_text() for label in saved[0].axes[0].get_yticklabels()]
    assert labels == ["x" * 24, "x" * 23 + "…"]


def test_a_map_by_task_has_a_number_where_both_models_have_a_score(monkeypatch, tmp_path):
    models = [
        ModelScores("org/ours", {"STS12": 70.0, "STS13": 60.0, "NFCorpus": 20.0}),
        ModelScores("org/teacher", {"STS12": 72.5, "NFCorpus": 30.0}),
        ModelScores("org/peer", {"STS12": 65.0, "STS13": 60.01}, published_by=""),
    ]
    saved = []
    monkeypatch.setattr(figures, "save", lambda figure, _: saved.append(figure))
    draw_by_task(compare_by_task(models, "MTEB(eng, v1)"), tmp_path / "map.png")
    [axes] = saved[0].axes
    ticks = [[t.get_text() for t in axis.get_ticklabels()] for axis in (axes.xaxis, axes.yaxis)]
    assert ticks == [
        ["org/\nteacher (measured)", "org/\npeer (published)"],
        ["Retrieval", "NFCorpus", "STS", "STS12", "STS13"],
    ]
    bold = [t.get_text() for t in axes.get_yticklabels() if t.get_fontweight() == "bold"]
    assert bold == ["Retrieval", "STS"]
    minus = "\N{MINUS SIGN}"
    found = {text.get_position()[::-1]: text.get_text() for text in axes.texts}
    assert found == {(1, 0): f"{minus}10.0", (3, 0): f"{minus}2.5", (3, 1): "+5.0", (4, 1): "0"}
    [cells] = axes.images
    assert cells.get_clim() == (-10, 10)
    assert np.isnan(cells.get_array().filled(np.nan)).sum() == 6


def test_no_map_without_a_common_task(tmp_path):
    models = [ModelScores("ours", {"STS12": 70.0}), ModelScores("teacher", {"STS13": 72.5})]
    with pytest.raises(ValueError, match="nothing to draw: the first model has no task in common"):
        draw_by_task(compare_by_task(models, "MTEB(eng, v1)"), tmp_path / "map.png")
    assert list(tmp_path.iterdir()) == []


def rgb(color):
    return np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) / 255


def test_numbers_that_round_to_zero_have_no_sign():
    _, axes = new_axes()
    values = np.array([[-0.04, 0.0, 0.04], [-1.25, 0.05, 2.0]])
    cells = draw_signed(axes, values, digits=1, fontsize=8)
    said = [text.get_text() for text in axes.texts]
    assert said == ["0", "0", "0", "\N{MINUS SIGN}1.2", "+0.1", "+2.0"]
    more, less = (cells.cmap(cells.norm(share))[:3] for share in (1.6, -1.6))
    for near, far, color in ((more, less, MORE), (less, more, LESS)):
        assert np.abs(near - rgb(color)).max() < 0.2 < np.abs(far - rgb(color)).max()


def test_values_over_bars_leave_the_title_free(monkeypatch):
    saved = []
    monkeypatch.setattr(figures, "save_both", lambda figure, _: saved.append(figure))
    rows = {"tokens": ["1-5", "6-10", "11-20", "all"], "agreement": [66.6, None, 83.7, 80.0]}
    figures.draw_agreement(pl.DataFrame(rows), "agreement")
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
    encoders = {FAST: 230_000, MODEL2VEC: 93_000, SENTENCE_TRANSFORMERS: 39_000}
    speeds = [MeasuredSpeed("ours", encoder, speed) for encoder, speed in encoders.items()]
    look = {"ours": "a name of some length"}, {"ours": MORE}
    draw_quality_and_speed(axes, speeds, {"ours": 60.0}, *look)
    [label] = axes.texts
    box = label.get_window_extent(FigureCanvasAgg(figure).get_renderer())
    line = Bbox(axes.transData.transform([[39_000, 60], [230_000, 60]]))
    assert not line.overlaps(box)


def test_labels_cover_no_point_and_no_other_label():
    figure = Figure(figsize=(7.0, 3.8), layout="constrained")
    axes = figure.subplots()
    places = [(80, 64), (12_000, 58), (19_000, 58), (15_000, 57), (19_000, 57), (50_000, 57)]
    for x, y in places:
        axes.plot(x, y, "o")
    axes.set(xscale="log")
    axes.margins(x=0.2, y=0.3)
    points = [(x, y, f"a model\nsome encoder {i}", "k") for i, (x, y) in enumerate(places)]
    figure.draw_without_rendering()
    limits = axes.get_xlim(), axes.get_ylim()
    labels = label_points(axes, points)
    assert (axes.get_xlim(), axes.get_ylim()) == limits
    renderer = FigureCanvasAgg(figure).get_renderer()
    boxes = [label.get_window_extent(renderer) for label in labels]
    inside = axes.get_window_extent(renderer)
    assert not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))
    for box, place in zip(boxes, places, strict=True):
        x, y = axes.transData.transform(place)
        assert max(box.x0 - x, x - box.x1, box.y0 - y, y - box.y1) < 60  # beside its point
        assert inside.x0 <= box.x0 < box.x1 <= inside.x1
        assert inside.y0 <= box.y0 < box.y1 <= inside.y1
        assert not any(box.contains(*axes.transData.transform(place)) for place in places)


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
