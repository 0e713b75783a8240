"""Write a table of made-up support tickets, as untidy as real ones: make_tickets.py FILE.parquet

The same bytes each time. Columns: id, created, text, and topic, which one ticket in eight has and
one in 200 has wrong. Some texts are missing, some have HTML, emoji or a long log in them, and some
were sent twice with small changes.
"""

import random
import sys
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

ROWS = 6_000
START = datetime(2026, 1, 5, 8)

# For each topic: what happened, the circumstances, and what is wanted. A ticket takes one of each.
TOPICS = {
    "login": (
        [
            "I cannot log in to my account",
            "The password reset mail never arrives",
            "My account is locked after three wrong passwords",
            "The code of two-factor authentication is refused",
            "Single sign-on sends me back to the login page",
            "I changed my phone and lost the authenticator app",
        ],
        [
            "It began this morning.",
            "I have a new laptop.",
            "I am in the office.",
            "I was on holiday.",
        ],
        ["Please unlock me.", "How do I get a new password?", "Can you reset my access?"],
    ),
    "billing": (
        [
            "My card was charged twice for {month}",
            "The invoice for {month} shows the wrong tax number",
            "We paid the invoice of {month} but still get reminders",
            "The yearly subscription was renewed although I cancelled it",
            "The discount code was not applied to our order",
            "The price on the bill differs from the quotation",
        ],
        [
            "I pay by credit card.",
            "We pay by bank transfer.",
            "I use PayPal.",
            "It is a company account.",
        ],
        ["Please refund the amount.", "Can you send a corrected invoice?", "I want my money back."],
    ),
    "delivery": (
        [
            "My parcel has not arrived",
            "The courier left the package with a neighbour I do not know",
            "Tracking has said 'in transit' for a week",
            "The box was damaged and the {product} is broken",
            "You sent a {colour} {product} instead of the one I ordered",
            "The delivery went to my old address",
        ],
        [
            "I ordered in {month}.",
            "I paid for express.",
            "It goes to {city}.",
            "I live near {city}.",
        ],
        ["Where is it?", "Please send a replacement.", "Can I pick it up myself?"],
    ),
    "crash": (
        [
            "The app crashes when I open a large file",
            "The program freezes at start-up",
            "I see a white screen after the update to version {version}",
            "Error {code} appears whenever I press save",
            "The window closes without a message",
            "The installer of version {version} stops half-way",
        ],
        ["I have Windows 11.", "It is an old MacBook.", "This is on Android.", "We use Ubuntu."],
        ["Is there a fix?", "Which logs do you need?", "I had to go back to the old version."],
    ),
    "export": (
        [
            "The export to Excel has empty columns",
            "Importing our CSV file turns dates into numbers",
            "Umlauts are broken in the exported table",
            "The report of {month} lacks the last rows",
            "Our spreadsheet of customers is imported twice",
            "The PDF report cuts off the right-hand column",
        ],
        [
            "It has 20,000 rows.",
            "I use the reporting page.",
            "We call the API.",
            "The template is new.",
        ],
        ["How do I get all the data?", "Which format do you expect?", "Please repair the file."],
    ),
    "feature": (
        [
            "A dark theme would be easier on the eyes",
            "It would be great to share dashboards with guests",
            "Could you add keyboard shortcuts for the calendar",
            "We would love a plug-in for Slack notifications",
            "I miss a search in the archive of messages",
            "Please support Portuguese in the user interface",
        ],
        [
            "Our whole team wants it.",
            "I use a tablet.",
            "Other tools have it.",
            "It need not be soon.",
        ],
        ["Is this planned?", "Many of my colleagues ask for it.", "Where can I vote for it?"],
    ),
}
SLOTS = {
    "month": ["January", "February", "March", "April"],
    "product": ["keyboard", "headset", "scanner", "label printer"],
    "colour": ["black", "white", "red"],
    "city": ["Lyon", "Leeds", "Bremen", "Turin"],
    "version": ["4.2", "4.3", "5.0"],
    "code": ["E1042", "E2210", "0x80070005"],
}
DETAILS = [
    "",
    "My customer number is {number}.",
    "This is urgent, my boss is waiting.",
    "I have asked about this before, in ticket {number}.",
    "It is not urgent.",
    "A colleague of mine has the same problem.",
    "I read the help pages, and they did not help.",
    "You can call me in the afternoon.",
]
GREETINGS = ["", "Hello,", "Hi there,", "Dear support team,", "Good morning,"]
CLOSINGS = ["", "Thanks!", "Best regards, Kim", "Many thanks in advance, Sam", "Cheers"]
EMOJI = ["😡", "🙏", "😢😢", "🚀", "👍🏽"]


def write_ticket(rng: random.Random, topic: str) -> str:
    """Make a text about a topic."""
    happened, circumstances, wanted = (rng.choice(part) for part in TOPICS[topic])
    body = [f"{happened}.", circumstances, rng.choice(DETAILS), wanted]
    parts = [rng.choice(GREETINGS), *body, rng.choice(CLOSINGS)]
    slots = {name: rng.choice(values) for name, values in SLOTS.items()}
    text = " ".join(part for part in parts if part)
    return text.format(**slots, number=rng.randrange(10_000, 90_000))


def send_again(rng: random.Random, text: str) -> str:
    """Change a text a little, as a second mail about the same thing does."""
    changes = (text.lower(), text.replace(".", "!!"), f"{text} Any news?", f"Again: {text}")
    return rng.choice(changes)


def make_untidy(rng: random.Random, text: str) -> str | None:
    """Give some texts what real ones have."""
    log = (f"12:{rng.randrange(60):02} worker {rng.randrange(9)} retry" for _ in range(400))
    return rng.choices(
        [
            text,
            f"<p>{text.replace('. ', '.<br>')}</p>&nbsp;<p>--<br>Sent from my phone</p>",
            f"{text} {rng.choice(EMOJI)}",
            f"{text}\n\nThe log:\n" + "\n".join(log),
            rng.choice(EMOJI),
            None,
        ],
        weights=[80, 10, 6, 1, 1, 2],
    )[0]


def choose_label(rng: random.Random, topic: str) -> str | None:
    """Give one ticket in eight a topic, mostly the right one."""
    wrong = rng.choice(list(TOPICS))
    return rng.choices([None, topic, wrong], weights=[175, 24, 1])[0]


def main(output: Path) -> None:
    """Write the table."""
    rng = random.Random(0)
    tickets: list[tuple[str, str]] = []
    for _ in range(ROWS):
        if tickets and rng.random() < 0.05:
            topic, text = rng.choice(tickets)
            tickets.append((topic, send_again(rng, text)))
        else:
            topic = rng.choice(list(TOPICS))
            tickets.append((topic, write_ticket(rng, topic)))
    rows = [
        {
            "id": 10_000 + i,
            "created": START + timedelta(minutes=25 * i),
            "text": make_untidy(rng, text),
            "topic": choose_label(rng, topic),
        }
        for i, (topic, text) in enumerate(tickets)
    ]
    output.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), output)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
