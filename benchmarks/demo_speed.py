"""How large a demo page is, and how fast it searches in headless Chromium.

    python benchmarks/demo_speed.py MODEL [--rounds 5]

writes the demo of MODEL, serves it on this machine, and prints its bytes and, as medians over
rounds in new browsers, milliseconds: from the request to a page that can be used; for the first
search in 1,000 texts after that, with the texts encoded for it, as the page itself shows; for the
next search in them; and for the nearest words of a word, the first time. The texts are sentences of
Python's documentation. It needs Chromium (`apt-get install chromium`) and the extra `dev`.
"""

import functools
import re
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from measuring import parser_of
from playwright.sync_api import Page, expect, sync_playwright

from st_static.evaluate.speed import speed_texts
from st_static.web.write_demo import write_demo

TEXTS = 1_000
QUERIES = ("read a table of numbers", "wait until a thread ends")
OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]


class QuietHandler(SimpleHTTPRequestHandler):
    """Serves files without a line for each request."""

    def log_message(self, format: str, *args: Any) -> None:
        """Write nothing."""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a folder on a web server."""
    handler = functools.partial(QuietHandler, directory=str(folder))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()


def milliseconds(page: Page, status: str) -> int:
    """What the page shows under a search."""
    pattern = re.compile(r" in ([\d,]+) ms")
    place = page.locator(f"#{status}")
    expect(place).to_have_text(pattern)
    shown = pattern.search(place.inner_text())
    assert shown
    return int(shown[1].replace(",", ""))


def measure(page: Page, address: str, texts: list[str]) -> dict[str, float]:
    """The milliseconds of one round."""
    start = time.perf_counter()
    page.goto(address)
    page.wait_for_selector("#app:not([hidden])")
    found = {"load": 1000 * (time.perf_counter() - start)}
    page.click("#tab-search")
    page.fill("#query", "")
    expect(page.locator("#search-status")).not_to_contain_text(" ms")
    set_texts = "([query, texts]) => { document.getElementById('query').value = query;"
    set_texts += "const box = document.getElementById('texts'); box.value = texts;"
    set_texts += "box.dispatchEvent(new Event('input')); }"
    page.evaluate(set_texts, [QUERIES[0], "\n".join(texts)])
    found["first search"] = milliseconds(page, "search-status")
    page.fill("#query", QUERIES[1])
    page.wait_for_timeout(300)
    found["next search"] = milliseconds(page, "search-status")
    page.click("#tab-words")
    found["nearest words"] = milliseconds(page, "words-status")
    return found


def main() -> None:
    """Measure and print."""
    parser = parser_of(__doc__)
    parser.add_argument("model")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    chromium = shutil.which("chromium")
    if not chromium:
        raise SystemExit("Install Debian's chromium: apt-get install chromium.")
    texts = list(dict.fromkeys(speed_texts()))[:TEXTS]
    rounds = []
    with tempfile.TemporaryDirectory() as home, sync_playwright() as playwright:
        folder = Path(home) / "demo"
        for name in write_demo(options.model, folder):
            if name.parts[0] == "model":
                print(f"{name}: {(folder / name).stat().st_size:,} bytes")
        sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
        print(f"all {len(sizes)} files: {sum(sizes):,} bytes")
        with served(folder) as address:
            for _ in range(options.rounds):
                browser = playwright.chromium.launch(executable_path=chromium, args=OPTIONS)
                rounds.append(measure(browser.new_page(), address, texts))
                browser.close()
    print(f"{len(texts):,} texts of {statistics.mean(map(len, texts)):.0f} characters on average")
    for name in rounds[0]:
        times = [one[name] for one in rounds]
        print(f"{name}: {statistics.median(times):.0f} ms (up to {max(times):.0f})")


if __name__ == "__main__":
    main()
