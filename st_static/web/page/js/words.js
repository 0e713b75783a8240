/** The words of texts and their scores by BM25, as in st_static/search/word_index.py. */

const K1 = 1.5;
const B = 0.75;
const SCRIPTS = ["Han", "Hiragana", "Katakana", "Khmer", "Lao", "Myanmar", "Thai", "Tibetan"];
// A character of a script without spaces, with its marks.
const UNSPACED = `[${SCRIPTS.map((name) => `\\p{Script=${name}}`).join("")}\u30FC]`;
const CHARACTER = new RegExp(`${UNSPACED}\\p{M}*`, "gu");
const PART = new RegExp(`((?:${CHARACTER.source})+)|(?:(?!${UNSPACED})[^ ])+`, "gu");
// What stands between words; marks without a letter or digit before them belong to it.
const NO_WORD = /(?:^|[^\p{L}\p{M}\p{N}])[^\p{L}\p{N}]*/gu;
// What lower case leaves to fold, of decomposed text: all such characters, and the dot of İ, which is not seen on i.
const FOLDING = /[ßς\u0345\u1C80-\u1C88]/gu;
const DOTTED = /i\u0307/gu;

/**
 * Make forms of a character, such as cases and widths, one, and drop what shows nothing.
 * @param {string} text
 */
function folded(text) {
  const visible = text.replace(/\p{Default_Ignorable_Code_Point}+/gu, "");
  const lower = visible.normalize("NFKD").toLowerCase().replace(DOTTED, "i");
  return lower.replace(FOLDING, (one) => one.toUpperCase().toLowerCase()).normalize("NFC");
}

/**
 * Runs of letters and digits, folded; in scripts without spaces, pairs of characters, and the last one of a run.
 * @param {string} text
 */
export function wordsOf(text) {
  const words = [];
  for (const [word, unspaced] of folded(text).replace(NO_WORD, " ").matchAll(PART)) {
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
