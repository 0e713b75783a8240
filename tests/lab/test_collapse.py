"""Second-order collapse against its definition."""

# ruff: noqa: N803, N806 - X and S are the names in the definition.

import itertools
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.patches import Ellipse
from scipy.linalg import sqrtm

from st_static.evaluate import figures
from st_static.lab.collapse import measure_collapse
from st_static.lab.collapse_figures import draw_clouds, draw_planes


def pair_of(X1, X2):
    return measure_collapse("model", [X1, X2])


def socm(X1, X2):
    return pair_of(X1, X2).socm[0]


def parts(X1, X2):
    """d_mu and d_Sigma with d x d matrices and SciPy's matrix root."""
    X1, X2 = (X / np.linalg.norm(X.mean(axis=0)) for X in (X1, X2))
    S1, S2 = (np.cov(X, rowvar=False, bias=True) for X in (X1, X2))
    root = sqrtm(S1)
    d_mu = np.sum((X1.mean(axis=0) - X2.mean(axis=0)) ** 2) / 4
    d_sigma = np.trace(S1 + S2 - 2 * np.real(sqrtm(root @ S2 @ root))) / 4
    return d_mu, d_sigma


def bounded_d_sigma(X1, X2):
    """By the same matrices, of tokens at a root mean square of 1."""
    X1, X2 = (X / np.sqrt(np.square(X).sum(axis=1).mean()) for X in (X1, X2))
    S1, S2 = (np.cov(X, rowvar=False, bias=True) for X in (X1, X2))
    root = sqrtm(S1)
    return np.trace(S1 + S2 - 2 * np.real(sqrtm(root @ S2 @ root))) / 2


def direct(X1, X2):
    d_mu, d_sigma = parts(X1, X2)
    return (1 - d_mu) * d_sigma


def text(seed, tokens, dimension=6, spread=1.0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=dimension) + spread * rng.normal(size=(tokens, dimension))


# With more tokens than dimensions the covariances have full rank, as `sqrtm` needs.
tokens = st.integers(8, 30)


@given(st.integers(0, 10**6), tokens, tokens, st.floats(0.05, 2))
def test_equals_the_direct_formula(seed, first, second, spread):
    X1, X2 = text(seed, first, spread=spread), text(seed + 1, second, spread=spread / 2)
    assert socm(X1, X2) == pytest.approx(direct(X1, X2), rel=1e-6)


def test_fewer_tokens_than_dimensions_by_hand():
    # Unit means along x and y; one text spreads along z by 1, the other not at all.
    X1 = np.array([[1.0, 0, 1], [1, 0, -1]])
    X2 = np.array([[0.0, 3, 0]])
    assert socm(X1, X2) == pytest.approx((1 - 2 / 4) * 1 / 4)


def test_is_symmetric_and_does_not_depend_on_scale_rotation_or_order_of_tokens():
    X1, X2 = text(0, 9), text(1, 4)
    expected = socm(X1, X2)
    rotation = np.linalg.qr(np.random.default_rng(2).normal(size=(6, 6)))[0]
    assert socm(X2, X1) == pytest.approx(expected)
    assert socm(7 * X1, 0.1 * X2) == pytest.approx(expected)
    assert socm(X1 @ rotation, X2 @ rotation) == pytest.approx(expected)
    assert socm(X1[::-1], X2) == pytest.approx(expected)


def pair(cosine, first, second):
    """Two texts with the given cosine of means; each spreads in a direction of its own.

    Their d_mu is (1 - cosine) / 2, their d_Sigma (first^2 + second^2) / 4.
    """
    spreads = np.array([[1.0], [-1.0]])
    X1 = np.array([1.0, 0, 0, 0]) + first * spreads * np.array([0, 0, 1.0, 0])
    mean = np.array([cosine, np.sqrt(1 - cosine**2), 0, 0])
    X2 = mean + second * spreads * np.array([0, 0, 0, 1.0])
    return X1, X2


def test_a_is_one_only_for_equal_means_and_the_largest_spread():
    assert socm(*pair(1.0, np.sqrt(2), np.sqrt(2))) == pytest.approx(1)
    assert socm(*pair(0.99, np.sqrt(2), np.sqrt(2))) < 0.999
    assert socm(*pair(1.0, np.sqrt(2), 1.3)) < 0.999


def test_b_is_zero_only_for_opposite_means_or_equal_spreads():
    assert socm(*pair(-1.0, 1, 1)) == pytest.approx(0)
    assert socm(*pair(0.5, 0, 0)) == pytest.approx(0)
    X1, _ = pair(1.0, 1, 1)
    assert socm(X1, X1) == pytest.approx(0)
    assert socm(*pair(-0.99, 1, 1)) > 1e-3
    assert socm(*pair(0.5, 0.1, 0)) > 1e-3


def orthogonal(tokens, dimension=40, start=0):
    """Words of one length at right angles, as those of a table nearly are."""
    return 3 * np.eye(dimension)[start : start + tokens]


def test_orthogonal_words_exceed_1_and_the_bounded_variant_does_not():
    """By hand: T words have the trace T - 1, and lose (T - 1) / T of their squared norm."""
    found = pair_of(orthogonal(11), orthogonal(21, start=11))
    assert found.traces == pytest.approx([10, 20])
    assert found.d_mu == pytest.approx([1 / 2])
    assert found.d_sigma == pytest.approx([30 / 4])
    assert found.socm == pytest.approx([30 / 8])
    assert found.bounded_d_sigma == pytest.approx([(10 / 11 + 20 / 21) / 2])
    assert found.bounded == pytest.approx([(10 / 11 + 20 / 21) / 4])


@given(st.integers(0, 10**6), tokens, tokens, st.floats(0.05, 20))
def test_the_bounded_variant_is_the_distance_of_tokens_at_a_root_mean_square_of_1(
    seed, first, second, spread
):
    texts = text(seed, first, spread=spread), text(seed + 1, second, spread=spread / 2)
    [found] = pair_of(*texts).bounded_d_sigma
    assert found == pytest.approx(bounded_d_sigma(*texts), rel=1e-6)
    assert 0 < found < 1


def test_means_over_pairs_are_those_of_pairs():
    texts = [text(seed, n) for seed, n in enumerate([3, 1, 12, 3, 7, 1, 3])]
    found = measure_collapse("model", texts)
    every = [pair_of(a, b) for a, b in itertools.combinations(texts, 2)]
    means = found.means()
    assert means["SOCM x 100"] == pytest.approx(100 * np.mean([p.socm for p in every]), rel=1e-9)
    for name, of_pair in (("d_mu", "d_mu"), ("d_Sigma", "d_sigma"), ("bounded SOCM", "bounded")):
        expected = 100 * np.mean([getattr(p, of_pair) for p in every])
        assert means[f"{name} x 100"] == pytest.approx(expected, rel=1e-9)
    assert (means["pairs"], means["texts"]) == (21, 7)


def test_each_pair_has_its_texts():
    """Texts are sorted by length on the way."""
    texts = [text(seed, n) for seed, n in enumerate([12, 9, 11, 9, 14, 10])]
    found = measure_collapse("model", texts)
    pairs = zip(found.first, found.second, strict=True)
    expected = [direct(texts[i], texts[j]) for i, j in pairs]
    assert found.socm == pytest.approx(expected, rel=1e-6)
    assert len({(i, j) for i, j in zip(found.first, found.second, strict=True) if i < j}) == 15


def test_the_twenty_pairs_that_are_lost_most_with_their_texts():
    texts = [text(seed, 9) for seed in range(9)]
    names = [f"text {i}" for i in range(9)]
    rows = measure_collapse("model", texts).worst_pairs(names).to_dicts()
    every = {(a, b): direct(texts[a], texts[b]) for a, b in itertools.combinations(range(9), 2)}
    largest = sorted(every, key=lambda pair: -every[pair])[:20]
    assert [(row["text1"], row["text2"]) for row in rows] == [
        (names[a], names[b]) for a, b in largest
    ]
    for row, (a, b) in zip(rows, largest, strict=True):
        assert row["SOCM x 100"] == pytest.approx(100 * every[a, b], rel=1e-6)
        d_mu, d_sigma = parts(texts[a], texts[b])
        assert row["d_mu x 100"] == pytest.approx(100 * d_mu, rel=1e-6)
        assert row["d_Sigma x 100"] == pytest.approx(100 * d_sigma, rel=1e-6)


def test_texts_with_too_large_a_trace_are_counted():
    narrow, wide = pair(1.0, 1.0, 2.0)
    means = measure_collapse("model", [narrow, wide, narrow]).means()
    assert means["texts with tr(Sigma) > 2"] == 1


@pytest.mark.parametrize(
    ("X", "says"),
    [
        (np.array([[1.0, 0, 0], [-1, 0, 0]]), "mean of the token vectors is zero"),
        (np.array([[np.nan, 0, 0]]), "NaN or infinity"),
    ],
)
def test_texts_that_cannot_be_compared(X, says):
    with pytest.raises(ValueError, match=says):
        measure_collapse("model", [np.ones((2, 3)), X])


def comments(svg):
    """The lines of text in a figure, whose letters are shapes."""
    return re.findall("<!-- (.*?) -->", svg.read_text("utf-8"))


@pytest.fixture(scope="module")
def before_and_after():
    """Three texts, of which the first model loses another pair most than the last one."""
    alike, apart = pair(0.9, 1.2, 1.2), pair(-0.5, 0.3, 0.3)
    before, after = [*alike, apart[1]], [alike[0], apart[1], alike[1]]
    return [measure_collapse("before", before), measure_collapse("after $x$", after)]


def test_the_planes_name_each_model_with_its_means(before_and_after, tmp_path):
    lines = comments(draw_planes(before_and_after, tmp_path / "planes")[0])
    for found in before_and_after:
        assert found.model in lines
        assert f"mean {found.socm.mean():.3f}, bounded {found.bounded.mean():.3f}" in lines
    assert any("excludes" in line for line in lines)


def test_the_clouds_are_of_the_pairs_that_the_first_and_the_last_model_lose_most(
    before_and_after, tmp_path
):
    texts = ["one $ text", "another text", "a third " + 30 * "long "]
    lines = comments(draw_clouds(before_and_after, texts, tmp_path / "clouds")[0])
    assert [line for line in lines if line.startswith(("Lost", "blue", "orange"))] == [
        *("Lost most by before:", "blue: one $ text", "orange: another text"),
        *("Lost most by after $x$:", "blue: one $ text", f"orange: {texts[2][:110]}…"),
    ]
    assert lines.count("before") == lines.count("after $x$") == 2


def test_a_wide_script_is_cut_at_the_same_width(tmp_path):
    found = measure_collapse("model", [text(0, 1), text(1, 1)])
    long, short = ("".join(chr(0x4E00 + i) for i in range(n)) for n in (60, 55))
    lines = comments(draw_clouds([found], [long, short], tmp_path / "c")[0])
    shown = {line.partition(": ")[2] for line in lines if line.startswith(("blue", "orange"))}
    assert shown == {long[:55] + "…", short}


def test_a_single_model_has_one_cloud(tmp_path):
    """Texts of a token each have no spread, and only one direction between them."""
    found = measure_collapse("model", [text(0, 1), text(1, 1)])
    assert "Lost most by model:" in comments(draw_clouds([found], ["a", "b"], tmp_path / "c")[0])


@pytest.fixture
def drawn(monkeypatch):
    """The matplotlib figures instead of their files."""
    kept = []
    monkeypatch.setattr(figures, "save_both", lambda figure, stem: kept.append(figure) or [])
    return kept


def test_the_planes_show_all_pairs_and_ring_the_worst_over_the_heat_of_the_collapse(drawn):
    texts = [text(seed, 8 + seed) for seed in range(9)]
    draw_planes([measure_collapse("model", texts)], "unused")
    above, below = drawn[0].axes[:2]
    heat = above.collections[0]
    pairs = list(itertools.combinations(texts, 2))
    places = np.array([parts(*pair) for pair in pairs])
    bounded = np.array([(parts(*pair)[0], bounded_d_sigma(*pair)) for pair in pairs])
    worst = np.argsort(-(1 - places[:, 0]) * places[:, 1])[:20]

    def in_order(rows):
        return rows[np.lexsort(rows.T)]

    for plane, in_plane in ((above, places), (below, bounded)):
        points, rings = (line.get_xydata() for line in plane.lines)
        assert np.allclose(in_order(points), in_order(in_plane))
        assert np.allclose(in_order(rings), in_order(in_plane[worst]))
    for path, low, high in zip(
        heat.get_paths(), heat.levels, [*heat.levels[1:], np.inf], strict=True
    ):
        x, y = path.vertices[(path.vertices[:, 0] < 1) & (path.vertices[:, 0] > 0)].T
        assert np.all((1 - x) * y > low - 0.01)
        assert np.all((1 - x) * y < high + 0.01)


def test_the_clouds_lie_in_the_plane_of_most_variance(drawn):
    texts = [text(seed, 8 + seed) for seed in range(2)]
    draw_clouds([measure_collapse("model", texts)], ["a", "b"], "unused")
    axes = drawn[0].axes[0]
    clouds = [line.get_xydata() for line in axes.lines if line.get_marker() == "o"]
    assert [len(cloud) for cloud in clouds] == [9, 8]  # the shorter text above
    scaled = np.concatenate([X / np.linalg.norm(X.mean(axis=0)) for X in texts])
    most = np.linalg.eigvalsh(np.cov(scaled, rowvar=False, bias=True))[-2:]
    assert np.allclose(np.sort(np.concatenate(clouds).var(axis=0)), most)
    ellipses = [patch for patch in axes.patches if isinstance(patch, Ellipse)]
    for cloud, ellipse in zip(clouds, ellipses, strict=True):
        deviations = np.sqrt(np.linalg.eigvalsh(np.cov(cloud, rowvar=False, bias=True)))
        assert np.allclose(ellipse.get_center(), cloud.mean(axis=0))
        assert np.allclose(sorted([ellipse.get_width(), ellipse.get_height()]), 2 * deviations)
