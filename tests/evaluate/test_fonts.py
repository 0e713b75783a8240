"""Figures draw any script that an installed font has, say what they cannot, and label points."""

import itertools
import warnings

import matplotlib as mpl
import numpy as np
import pytest
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen
from matplotlib import font_manager
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from st_static.evaluate.analysis.explain import Explanation, Word
from st_static.evaluate.analysis.heat_map import draw_heat_map, shortened
from st_static.evaluate.fonts import can_draw, fonts_for
from st_static.evaluate.point_labels import Point, label_points, text_box

JAPANESE = "東京タワー"


@pytest.fixture
def no_fonts(monkeypatch):
    """A machine on which no font is installed beside matplotlib's own."""
    monkeypatch.setattr(font_manager, "findSystemFonts", list)


@pytest.fixture
def japanese_font(tmp_path, monkeypatch):
    """A machine on which a font with a black square for each Japanese character is installed."""
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
    font.setupNameTable({"familyName": "Squares", "styleName": "Regular"})
    font.setupOS2()
    font.setupPost()
    file = tmp_path / "ipaexg-squares.ttf"
    font.save(file)
    monkeypatch.setattr(font_manager, "findSystemFonts", lambda: [str(file)])
    yield file
    manager = font_manager.fontManager
    manager.ttflist = [entry for entry in manager.ttflist if entry.fname != str(file)]


def explanation(first, second):
    words = [[Word(text, [text], [1], True) for text in texts] for texts in (first, second)]
    shares = np.full((len(first), len(second)), 0.1)
    return Explanation(words[0], words[1], shares)


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
        assert mpl.rcParams["font.family"] == [*before, "Squares"]
    assert mpl.rcParams["font.family"] == before
    with fonts_for("plain Größe"):
        assert mpl.rcParams["font.family"] == before


def test_what_no_font_has_is_said_once(no_fonts, tmp_path, caplog):
    assert not can_draw(f"{JAPANESE} tower")
    drawn(tmp_path / "ja.png", [JAPANESE, "東"], ["tower"])
    [record] = caplog.records
    assert "No installed font has the characters タ ワ ー 京 東" in record.getMessage()
    assert "apt-get install fonts-noto-cjk" in record.getMessage()


def test_a_font_that_is_broken_is_passed_over(no_fonts, tmp_path, monkeypatch, caplog):
    broken = tmp_path / "ipaexg.ttf"
    broken.write_bytes(b"no font")
    monkeypatch.setattr(font_manager, "findSystemFonts", lambda: [str(broken)])
    drawn(tmp_path / "ja.png", [JAPANESE], ["tower"])
    assert "No installed font" in caplog.text


@pytest.mark.parametrize("n_words", [1, 12])
def test_long_words_leave_room_for_the_map(tmp_path, n_words):
    pixels = drawn(tmp_path / "long.png", ["x" * 300] * n_words, ["y" * 300] * n_words)
    assert pixels.shape[1] < 3000
    assert shortened("x" * 300) == "x" * 23 + "…"
    assert shortened("x" * 24) == "x" * 24


def test_labels_cover_no_point_and_no_other_label():
    figure = Figure(figsize=(7.0, 3.8), layout="constrained")
    axes = figure.subplots()
    places = [(80, 64), (12_000, 58), (19_000, 58), (15_000, 57), (19_000, 57), (50_000, 57)]
    for x, y in places:
        axes.plot(x, y, "o")
    axes.set(xscale="log")
    axes.margins(x=0.2, y=0.3)
    points = [Point(x, y, f"a model\nsome encoder {i}", "k") for i, (x, y) in enumerate(places)]
    labels = label_points(axes, points, fontsize=8)
    renderer = FigureCanvasAgg(figure).get_renderer()
    boxes = [text_box(label, renderer) for label in labels]
    inside = axes.get_window_extent(renderer)
    assert not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))
    for box, label in zip(boxes, labels, strict=True):
        assert inside.x0 <= box.x0 < box.x1 <= inside.x1
        assert inside.y0 <= box.y0 < box.y1 <= inside.y1
        assert not any(box.contains(*axes.transData.transform(place)) for place in places)
        x, y = label.get_position()
        assert max(abs(x), abs(y)) < 60  # beside its point
