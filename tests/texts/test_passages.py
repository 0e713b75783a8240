"""Documents are cut where their headings are, and passages say in which line they begin."""

import pytest

from st_static.texts.passages import passages

WORDS = "Some words that fill the line of a paragraph in this document."


def test_headings_begin_passages_and_stand_before_them() -> None:
    text = (
        "Before.\n\n# Guide\n\n## Install\n\nRun pip.\n\nThen wait.\n\n"
        "### On Windows\nRun py.\n\n## Use\n\n## Rest\n"
    )
    assert list(passages(text, ".md")) == [
        (1, "Before."),
        (5, "Guide > Install\n\nRun pip.\n\nThen wait."),
        (11, "Guide > Install > On Windows\n\nRun py."),
        (14, "Guide > Use"),
        (16, "Guide > Rest"),
    ]


@pytest.mark.parametrize("suffix", [".txt", ".md", ".rst"])
def test_paragraphs_are_joined_up_to_a_length(suffix: str) -> None:
    found = list(passages("\n\n".join(f"{n} {WORDS}" for n in range(50)), suffix))
    assert [line for line, _ in found] == [1, 37, 71]
    assert all(900 < len(text) <= 1_200 for _, text in found[:-1])
    assert [text.split()[0] for _, text in found] == ["0", "18", "35"]
    assert found[0][1].count(WORDS) == 18


def test_long_paragraphs_are_cut_behind_sentences_and_keep_their_lines() -> None:
    text = "\n" + "\n".join(f"Line {n} is here. It goes\non (as it may)." for n in range(2, 160, 2))
    lines = text.split("\n")
    found = list(passages(text, ".txt"))
    assert len(found) == 3
    for line, passage in found:
        assert lines[line - 1].endswith(passage.split("\n")[0])
        assert passage.endswith((".", ".)"))
    assert "".join("".join(passage.split()) for _, passage in found) == "".join(text.split())


@pytest.mark.parametrize(
    ("text", "longest"),
    [
        ("a" * 3_000, 1_200),
        ("word " * 600, 1_200),
        ("x = 1\n" * 500, 1_200),
        ("\u6587\u5b57\u3067\u3059\u3002" * 300, 400),
        ("\u6587" * 2_000, 400),
    ],
)
def test_texts_without_sentences_are_cut_too(text: str, longest: int) -> None:
    found = [passage for _, passage in passages(text, ".txt")]
    assert all(longest * 0.6 < len(passage) <= longest for passage in found[:-1])
    assert "".join("".join(found).split()) == "".join(text.split())
    assert len({passage[:3] for passage in found}) == 1  # none is cut inside of a line or word


def test_code_of_markdown_stays_as_it_is() -> None:
    text = (
        "# Title\n\nRun [this](address.md):\n\n```python\n# no heading\nx[0](y)\n\n```\n\n"
        "See `a[0](b)` and [*that*](x 'y').\n"
    )
    code = "```python\n# no heading\nx[0](y)\n\n```"
    wanted = f"Title\n\nRun this:\n\n{code}\n\nSee `a[0](b)` and *that*."
    assert list(passages(text, ".md")) == [(1, wanted)]


def test_front_matter_and_comments_of_markdown_are_left_out() -> None:
    text = "---\ntitle: x\n---\n\nTitle\n=====\n<!-- not\n# this -->\n\n<b>bold</b>\n\n---\n\n- a\n"
    assert list(passages(text, ".md")) == [(5, "Title\n\n<b>bold</b>\n\n- a")]
    assert list(passages("---\nno end", ".md")) == [(2, "no end")]


def test_a_table_of_markdown_is_one_part() -> None:
    table = "| a | b |\n|---|---|\n| 1 | 2 |"
    assert list(passages(f"# T\n{table}\n\nText.\n", ".md")) == [(1, f"T\n\n{table}\n\nText.")]


def test_headings_of_restructured_text_are_those_that_are_underlined() -> None:
    text = (
        "=====\n Top\n=====\n\nOne\n---\nText.\n\n.. note:: Keep\n   this.\n\n::\n\n   A\n   --\n\n"
        "Two\n---\n\nDeep\n~~~~\n\nMore.\n\n----\n\nEnd.\n"
    )
    assert list(passages(text, ".rst")) == [
        (5, "Top > One\n\nText.\n\n.. note:: Keep\n   this.\n\n::\n\n   A\n   --"),
        (20, "Top > Two > Deep\n\nMore.\n\n----\n\nEnd."),
    ]


def test_names_of_headings_that_nobody_sees_are_left_out() -> None:
    text = "One\n---\n\nText.\n\n.. _two:\n.. _`2`:\n\nTwo\n---\n\n.. _a: https://a.org\n"
    assert list(passages(text, ".rst")) == [
        (1, "One\n\nText."),
        (9, "Two\n\n.. _a: https://a.org"),
    ]


def test_pages_are_read_as_they_are_shown() -> None:
    text = """<!doctype html>
<html><head><title>The site</title>
<style>p > a { color: red }</style><script>if (a < b) "<p>code</p>"</script>
</head><body><nav><ul><li>Menu</ul></nav>
<!-- <h1>not this</h1> -->
<h1>A&amp;B<a href="#a">\N{PILCROW SIGN}</a></h1>
<p>A <b>bo</b>ld
text<br>of <a title="x > y"
 href=z>three</a> lines.</p><div>Next</div>
<table><tr><td>1</td><td>2</td></tr></table>
<h2 id=x>Under</h2><p>3 < 4 &nbsp; end
</body></html>
"""
    assert list(passages(text, ".html")) == [
        (6, "The site > A&B\n\nA bold\ntext of \nthree lines.\n\nNext\n\n1 2"),
        (11, "The site > A&B > Under\n\n3 < 4 end"),
    ]


@pytest.mark.parametrize("begin", ["<!-- ", "<script> ", "<a href='", "<p", "</", "<", "<![X["])
def test_pages_of_what_is_never_closed_are_read_in_linear_time(begin: str) -> None:
    assert len(list(passages(f"<p>Text</p>{begin * 100_000}", ".html"))) >= 1


@pytest.mark.parametrize(
    ("suffix", "begin", "mark"),
    [(".html", "<", "a"), (".html", "<a", '"'), (".md", "a " + "x" * 100_000, "`")],
)
def test_long_runs_of_a_mark_are_read_in_linear_time(suffix: str, begin: str, mark: str) -> None:
    text = begin + mark * 100_000 + "x" * 100_000
    assert sum(piece.count("x") for _, piece in passages(text, suffix)) >= 100_000


def test_code_of_markdown_ends_with_as_many_marks_as_it_begins() -> None:
    text = "Use ``a`[b](c)``` [d](e)`` and ``` [f](g)."
    assert list(passages(text, ".md")) == [(1, "Use ``a`[b](c)``` [d](e)`` and ``` f.")]


def test_what_has_no_text_has_no_passages() -> None:
    for suffix in (".txt", ".md", ".rst", ".html"):
        assert list(passages(" \n\n", suffix)) == []
    assert list(passages("#\n", ".md")) == []
    assert list(passages("<p></p>", ".html")) == []
