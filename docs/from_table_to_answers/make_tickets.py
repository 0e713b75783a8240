"""Write a table of 20,000 made-up support tickets: `python make_tickets.py FILE.parquet`.

As in real tables, some texts are missing, hold HTML or emoji, are very long, come almost twice, or
have a wrong label.
"""

import random
import sys

import pyarrow as pa
import pyarrow.parquet as pq

OPENINGS = [
    *("Hello,", "Hi there,", "Good morning,", "To whom it may concern,", "Hello support team,"),
    *("", "", "", "Please help:", "Quick question:", "Dear all,", "Second attempt:"),
]
ENDINGS = [
    *("Thank you!", "Thanks in advance.", "Please answer soon.", "Kind regards", "", "", ""),
    *("I have waited for {n} days.", "My customer number is {n}.", "This is urgent."),
]
# What each topic's tickets say: {a} and {b} are drawn from the lists below.
TOPICS = {
    "login": [
        *("I cannot log in to {a} since {b}.", "My password for {a} is not accepted."),
        *("The reset link for {a} has expired.", "My account was locked after I tried {n} times."),
        *("Two-factor codes for {a} do not arrive.", "{a} logs me out {b}."),
    ],
    "billing": [
        *("I was charged twice for {a}.", "The invoice of {b} shows the wrong amount: {n} euros."),
        *("Please refund my order of {a}.", "How do I change the credit card for {a}?"),
        *("My discount code does not work for {a}.", "Where is the receipt of {b}?"),
    ],
    "delivery": [
        *("My parcel with {a} has not arrived.", "The tracking number shows nothing {b}."),
        *("The courier left {a} at the wrong address.", "{a} came broken, the box was wet."),
        *("Can you deliver {a} on Saturday?", "Half of my order is missing: {a}."),
    ],
    "app": [
        *("The app crashes when I open {a}.", "After the update of {b}, the screen stays black."),
        *("{a} is very slow on my phone.", "Pictures of {a} do not load."),
        *("The app drains my battery {b}.", "Error code {n} appears when I save {a}."),
    ],
    "opening hours": [
        *("When does the shop near {b} open?", "Are you open on public holidays?"),
        *("Until what time can I pick up {a}?", "Is the store closed {b}?"),
    ],
}
THINGS = [
    *("the web shop", "my account", "the tablet", "two lamps", "the garden chair", "a winter coat"),
    *("the premium plan", "the newsletter", "the phone app", "a coffee machine", "the bookcase"),
    *("running shoes", "the calendar", "the photo album", "a birthday present", "the router"),
]
TIMES = [
    *("yesterday", "last week", "Monday", "the weekend", "this morning", "the 3rd of May", "April"),
    *("last night", "the holidays", "two hours ago", "the station", "your last letter"),
]


def ticket(topic: str, rng: random.Random) -> str:
    """One ticket of a topic."""
    sentences = rng.sample(TOPICS[topic], rng.choice([1, 1, 2]))
    text = " ".join([rng.choice(OPENINGS), *sentences, rng.choice(ENDINGS)]).strip()
    while "{" in text:
        text = text.replace("{a}", rng.choice(THINGS), 1).replace("{b}", rng.choice(TIMES), 1)
        text = text.replace("{n}", str(rng.randint(2, 9999)), 1)
    odd = rng.random()
    if odd < 0.05:
        return f"<div><p>{text}</p><br/>&nbsp;</div>"
    if odd < 0.10:
        return f"{text} {rng.choice(['😡', '🙏', '📦📦', '😀'])}"
    return f"{text}\n" * 200 if odd < 0.101 else text


def main(file: str) -> None:
    rng = random.Random(0)
    rows: list[dict[str, object]] = []
    for number in range(20_000):
        topic = rng.choice(list(TOPICS))
        text: str | None = ticket(topic, rng)
        if rows and rng.random() < 0.02:  # sent once more, with a small change
            before = rng.choice(rows)
            if before["text"]:
                topic, text = str(before["topic"]), f"{before['text']}!"
        if rng.random() < 0.01:
            text = None
        if rng.random() < 0.05:  # labelled in haste
            topic = rng.choice(list(TOPICS))
        rows.append({"id": number, "text": text, "topic": topic})
    pq.write_table(pa.Table.from_pylist(rows), file)


if __name__ == "__main__":
    main(sys.argv[1])
