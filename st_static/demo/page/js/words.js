/** The words of texts and their scores by BM25, as in st_static/search/word_index.py. */

const K1 = 1.5;
const B = 0.75;
const SCRIPTS = ["Han", "Hiragana", "Katakana", "Khmer", "Lao", "Myanmar", "Thai", "Tibetan"];
// A character of a script without spaces, with its marks.
const UNSPACED = `[${SCRIPTS.map((name) => `\\p{Script=${name}}`).join("")}\u30FC\uFF70]`;
const CHARACTER = new RegExp(`${UNSPACED}[\\p{M}\uFF9E\uFF9F]*`, "gu");
const PART = new RegExp(`((?:${CHARACTER.source})+)|(?:(?!${UNSPACED})[\\p{L}\\p{M}\\p{N}])+`, "gu");

/**
 * Runs of letters and digits in lower case, forms of a character being one; in scripts without spaces, pairs of characters, and the
 * last one of a run.
 * @param {string} text
 */
export function wordsOf(text) {
  const words = [];
  for (const [word, unspaced] of text.normalize("NFKC").toLowerCase().matchAll(PART)) {
    const characters = unspaced?.match(CHARACTER);
    if (!characters) words.push(word);
    characters?.forEach((character, i) => words.push(character + (characters[i + 1] ?? "")));
  }
  return words;
}

export class WordIndex {
  /** @param {string[]} texts */
  constructor(texts) {
    const counted = texts.map(wordsOf);
    const average = counted.reduce((sum, words) => sum + words.length, 0) / texts.length;
    this._size = texts.length;
    /** @type {Map<string, Map<number, number>>} How often each text has a word. */
    this._counts = new Map();
    this._lengths = counted.map((words) => 1 - B + (B * words.length) / average);
    counted.forEach((words, i) => {
      for (const word of words) {
        if (!this._counts.has(word)) this._counts.set(word, new Map());
        const counts = this._counts.get(word);
        counts.set(i, (counts.get(i) ?? 0) + 1);
      }
    });
  }

  /**
   * The score of each text; 1 is that of a text of average length that has each word once.
   * @param {string} query
   */
  scores(query) {
    const scores = new Float64Array(this._size);
    let complete = 0;
    for (const word of wordsOf(query)) {
      const counts = this._counts.get(word) ?? new Map();
      const idf = Math.log1p((this._size - counts.size + 0.5) / (counts.size + 0.5));
      complete += idf / (1 + K1);
      for (const [i, n] of counts) scores[i] += (idf * n) / (n + K1 * this._lengths[i]);
    }
    return scores.map((score) => score / (complete || 1));
  }
}
