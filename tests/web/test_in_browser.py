"""The page in headless Chromium: what a user sees, and that nothing leaves the page."""

import json
import re
import shutil

import numpy as np
import pytest
from demo_models import HTML, SENTENCES, as_on_the_page, odd_texts
from demo_server import served

from st_static.encode.explain import explain
from st_static.encode.fast_encoder import FastEncoder
from st_static.model.model_folder import read_static_model
from st_static.search.search_index import SearchIndex
from st_static.web.write_demo import write_demo

CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(
    not CHROMIUM, reason="install Debian's chromium: apt-get install chromium"
)
# Nothing but what is asked for: no updates, and no sandbox, which containers do not allow.
OPTIONS = [
    *("--no-sandbox", "--disable-gpu", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--no-first-run"),
]
SHOWN = "#app:not([hidden])"
IN_PAGE = """async (texts) => {
    const {loadModel} = await import("./js/model.js");
    const {encoder} = await loadModel(() => {});
    return {
        ids: texts.map((text) => encoder.tokenizer.ids(text)),
        vectors: texts.map((text) => [...encoder.encode(text)]),
    };
}"""


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        yield started
        started.close()


@pytest.fixture(scope="module")
def addresses(demos):
    """Where the demo of each form is served."""
    [parent] = {demo.parent for demo in demos.values()}
    with served(parent) as address:
        yield {name: f"{address}{demo.name.replace(' ', '%20')}/" for name, demo in demos.items()}


@pytest.fixture
def show(browser, addresses):
    """Opens a demo, until the test ends; nothing may go wrong, or be asked of other places."""
    contexts, problems, asked = [], [], []

    def opened(form="words", **options):
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: problems.append(message.text))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(addresses[form])
        page.wait_for_selector(SHOWN)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert problems == []
    assert asked
    assert [url for url in asked if not url.startswith(tuple(addresses.values()))] == []


def lines(page, selector):
    return page.locator(selector).all_inner_texts()


def shares_shown(page):
    """The exact shares in the heat map's cells."""
    titles = page.locator("#heat-map td.share").evaluate_all("all => all.map((td) => td.title)")
    return np.array([float(title) for title in titles])


def wait_for_best_hit(page, text):
    page.locator("#hits li:first-child", has_text=text).wait_for()


def number(text):
    """A score as the page writes it."""
    return float(text.replace("\N{MINUS SIGN}", "-"))


def cosine_shown(page):
    return number(page.inner_text("#similarity"))


@pytest.mark.parametrize("form", ["words", "pieces", "head"])
def test_ids_and_vectors_are_those_of_python(form, show, models):
    texts = odd_texts()
    found = show(form).evaluate(IN_PAGE, texts)
    model = as_on_the_page(models[form])
    encodings = model.tokenizer.encode_batch(texts, add_special_tokens=False)
    assert found["ids"] == [encoding.ids for encoding in encodings]
    expected = FastEncoder(model).encode(texts)
    np.testing.assert_allclose(found["vectors"], expected, atol=1e-4)


@pytest.mark.parametrize("form", ["words", "head", "ensemble"])
def test_the_heat_map_adds_up_to_the_similarity_and_is_that_of_explain(form, show, models):
    page = show(form)
    page.fill("#first", SENTENCES[0])
    page.fill("#second", SENTENCES[10])
    expected = explain(read_static_model(models[form]), SENTENCES[0], SENTENCES[10])
    known = expected.of_known_words()
    last = ["left out"] if form == "head" else []
    assert lines(page, "#heat-map tbody th") == [*(word.text for word in known.first), *last]
    assert lines(page, "#heat-map thead th") == [*(word.text for word in known.second), *last]
    shares = shares_shown(page)
    np.testing.assert_allclose(shares, known.contributions.ravel(), atol=0.01)
    assert shares.sum() == pytest.approx(cosine_shown(page), abs=0.01)
    assert cosine_shown(page) == pytest.approx(expected.similarity, abs=0.01)
    assert page.is_visible("#of-head") == (form == "head")


def test_same_words_in_another_order_have_the_cosine_1(show):
    page = show()
    page.fill("#first", "the quick brown dog")
    page.fill("#second", "dog, brown, quick, the!")
    assert page.inner_text("#similarity") == "1.000"
    page.fill("#second", "qqq xzxz")
    assert page.inner_text("#similarity") == "0.000"
    assert "no word that the model knows" in page.inner_text("#heat-map")
    assert page.inner_text("#unknown") == "The model has no vector for: qqq, xzxz"


def test_a_thousand_texts_are_searched(show, models, tmp_path):
    page = show()
    texts = [f"{SENTENCES[i % 10]} the {i}" for i in range(999)]
    page.click("#tab-search")
    # A file: Chromium takes half a minute to type so many lines into a text area.
    (tmp_path / "texts.txt").write_text("\n".join([*texts, "a quick brown fox"]), "utf-8")
    page.set_input_files("#file", tmp_path / "texts.txt")
    page.fill("#query", "quick fox")
    wait_for_best_hit(page, "brown fox")
    assert re.fullmatch(r"1,000 texts in [\d,]+ ms", page.inner_text("#search-status"))
    scores = [number(score) for score in lines(page, "#hits .score")]
    assert scores == sorted(scores, reverse=True)
    index = SearchIndex.build(
        FastEncoder.from_pretrained(models["words"]), [*texts, "a quick brown fox"]
    )
    expected = [hit.score for hit in index.search("quick fox", 20)]
    np.testing.assert_allclose(scores, expected, atol=0.01)


def test_a_text_file_is_searched_and_other_files_are_refused(show, tmp_path):
    page = show()
    page.click("#tab-search")
    (tmp_path / "texts.txt").write_text("the dog\n\nthe ships\n", "utf-8")
    page.set_input_files("#file", tmp_path / "texts.txt")
    page.fill("#query", "ships")
    wait_for_best_hit(page, "the ships")
    assert page.inner_text("#search-status").startswith("2 texts in ")
    for name, data in (
        ("image.txt", b"\xff\xfe\x00"),
        ("wide.txt", "the cat\n".encode("utf-16-le")),
    ):
        (tmp_path / name).write_bytes(data)
        page.set_input_files("#file", tmp_path / name)
        page.wait_for_selector(f"#file-problem:has-text('{name}')")
        assert page.inner_text("#file-problem") == f"{name} is not text in UTF-8."
    assert page.inner_text("#search-status").startswith("2 texts in ")


def test_nearest_words_are_listed(show):
    page = show()
    page.click("#tab-words")
    page.fill("#word", "dog")
    assert len(lines(page, "#neighbours li")) == 20
    assert re.fullmatch(r"[\d,]+ words in \d+ ms", page.inner_text("#words-status"))
    page.fill("#word", "qqq")
    assert page.inner_text("#words-status") == "The model has no vector for this."


def test_limits_are_shown_with_the_cosines_of_the_model(show, models):
    page = show()
    page.click("#tab-limits")
    facts = json.loads(page.evaluate("fetch('model/model.json').then((r) => r.text())"))
    encoder = FastEncoder.from_pretrained(models["words"])
    assert facts["limits"]["unsuited"] in page.inner_text("#unsuited")
    shown = lines(page, "#pairs li")
    pairs = facts["limits"]["pairs"]
    assert {"word order", "negation", "length"} <= {pair["limit"] for pair in pairs}
    for pair, item in zip(pairs, shown, strict=True):
        one, other = encoder.encode([pair["first"], pair["second"]])
        score = number(re.search(r"This model: (\S+?)\. It", item)[1])
        assert pair["first"] in item
        assert score == pytest.approx(float(one @ other), abs=0.01)


def test_html_is_shown_as_text(show):
    page = show()
    page.fill("#first", f"the dog {HTML}")
    page.fill("#second", f"dog {HTML}")
    page.click("#tab-search")
    page.fill("#texts", f"the dog {HTML}\nthe ships")
    page.fill("#query", f"dog {HTML}")
    wait_for_best_hit(page, "the dog")
    assert HTML in page.inner_text("#hits")
    page.wait_for_timeout(100)  # an image that is not there would have been asked for by now
    assert page.title() == "words"
    assert page.locator("main script, main img").count() == 0


def test_texts_of_the_demo_with_html_are_shown_as_text(models, browser, tmp_path):
    write_demo(models["words"], tmp_path / "demo", [HTML, "the dog </textarea><script>x</script>"])
    with served(tmp_path / "demo") as address:
        page = browser.new_page()
        page.goto(address)
        page.wait_for_selector(SHOWN)
        page.click("#tab-search")
        page.fill("#query", "dog")
        page.wait_for_selector("#hits li:nth-child(2)")
        assert page.title() == "words"
        assert "</textarea>" in page.inner_text("#hits")
        page.close()


def test_scripts_that_stand_in_the_page_do_not_run(browser, addresses):
    page = browser.new_page()
    page.goto(addresses["words"])
    page.wait_for_selector(SHOWN)
    page.evaluate("""() => {
        const script = document.createElement("script");
        script.textContent = "document.title = 'run'";
        document.body.append(script);
    }""")
    assert page.title() == "words"
    page.close()


def test_once_loaded_the_page_asks_for_nothing(show):
    page = show()
    later = []
    page.on("request", lambda request: later.append(request.url))
    page.context.set_offline(True)
    page.fill("#first", "the quick brown dog")
    page.fill("#second", "the dog")
    assert cosine_shown(page) > 0.3
    for tab in ("search", "limits", "words"):
        page.click(f"#tab-{tab}")
        assert page.is_visible(f"#{tab}")
    page.fill("#word", "dog")
    assert later == []


def test_tabs_are_moved_between_with_the_keyboard(show):
    page = show()
    page.focus("#tab-compare")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "compare"
    page.keyboard.press("Shift+Tab")
    keys = ["ArrowRight", "End", "ArrowRight", "ArrowLeft", "ArrowLeft", "Home"]
    tabs = ["search", "limits", "compare", "limits", "words", "compare"]
    for key, tab in zip(keys, tabs, strict=True):
        page.keyboard.press(key)
        assert page.evaluate("document.activeElement.id") == f"tab-{tab}"
        selected = page.locator("[role=tab][aria-selected=true]")
        assert selected.evaluate_all("all => all.map((one) => one.id)") == [f"tab-{tab}"]
        visible = page.locator("[role=tabpanel]:visible")
        assert visible.evaluate_all("all => all.map((one) => one.id)") == [tab]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_a_phone(scheme, show):
    page = show(viewport={"width": 390, "height": 844}, color_scheme=scheme)
    page.fill("#first", SENTENCES[0])
    page.fill("#second", "the " * 60 + "a" * 200)
    for tab in ("compare", "search", "words", "limits"):
        page.click(f"#tab-{tab}")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.parametrize("width", [390, 1280])
def test_what_the_heat_map_shows_is_said_in_full_over_maps_of_any_size(width, show):
    page = show(viewport={"width": width, "height": 844})
    caption, table = page.locator("#heat-map caption span"), page.locator("#heat-map table")
    page.fill("#first", "dog")
    page.fill("#second", "the")
    assert caption.bounding_box()["height"] < 50  # no more than two lines
    assert table.bounding_box()["width"] < 120
    page.fill("#second", SENTENCES[0] * 5)
    before = caption.bounding_box()
    page.evaluate("document.getElementById('heat-map').scrollLeft = 1e6")
    assert table.bounding_box()["x"] < -100
    assert caption.bounding_box() == before


def test_opened_as_a_file_the_page_says_what_to_do(browser, demos):
    page = browser.new_page()
    page.goto((demos["words"] / "index.html").as_uri())
    page.wait_for_selector("#without-server", state="visible")
    assert "python -m http.server" in page.inner_text("body")
    page.close()


def test_while_the_model_is_loaded_the_page_says_how_far(browser, addresses):
    page = browser.new_page()
    held = []
    # A lambda, since a method of C cannot be marked.
    page.route("**/table.safetensors", lambda route: held.append(route))
    page.goto(addresses["words"])
    said = re.compile(r"^Loading the model: 0\.\d of 0\.\d MB$")
    page.locator("#loaded", has_text=said).wait_for()
    assert 0 < page.evaluate("document.getElementById('progress').value") < 1
    assert not page.is_visible("#app")
    held[0].continue_()
    page.wait_for_selector(SHOWN)
    assert not page.is_visible("#start")
    page.close()


def test_a_model_that_does_not_load_is_told(browser, models, tmp_path):
    write_demo(models["words"], tmp_path / "demo")
    (tmp_path / "demo" / "model" / "table.safetensors").unlink()
    with served(tmp_path / "demo") as address:
        page = browser.new_page()
        page.goto(address)
        page.wait_for_selector("#failed:not([hidden])")
        assert "table.safetensors is missing" in page.inner_text("#failed")
        page.close()
