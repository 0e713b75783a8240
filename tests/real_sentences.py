"""Real sentences: English, accents, other scripts, emoji, punctuation."""

SENTENCES = [
    "The old lighthouse keeper counted the ships before going to sleep.",
    "Reading a comma-separated file takes only a few lines of Python.",
    "She wasn't sure whether the 3.5% raise (paid in June) was fair...",
    "My café au lait went cold while I read the naïve résumé.",
    "Tokenization of unbelievably long words is surprisingly interesting.",
    "Der Fluß fließt über die Brücke, und die Vögel singen.",
    "El niño comió piñas y bebió agua; ¿quién lo diría?",
    "我喜欢吃苹果 and she likes 東京タワー.",
    "Привет, мир! Сегодня хорошая погода.",
    "Emoji 😀 are fun 👩‍👩‍👧 and flags 🇯🇵 too!!",
    "Send it to someone@example.com or visit https://example.com/a?b=c&d=e now.",
    "Don't walk on the grass, walking is not allowed there.",
    "A keeper keeps what he is keeping; the kept ship ships again.",
    "THE QUICK BROWN FOX jumps over the lazy dog #42 times.",
    "the the the the quick quick brown dog",
    "Ångström measured light; the Ω and the µ stayed.",
    "He said \u201cno\u201d \u2014 and left\u2026 without another word.",
    "ﬁne ﬂowers grow in the oﬃce of Ⅷ kings",
    "Combining marks: cafe\u0301, n\u0303andu\u0301, a\u0323\u0302.",
    "Numbers such as 12,345.67 and 1e-5 are read as well.",
]
