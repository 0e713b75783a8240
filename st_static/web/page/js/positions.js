/**
 * Where words stand in a text.
 *
 * A tokenizer splits the normalised text. Its words are looked for there, and the characters of the
 * text of which they were made are what is shown.
 */

import {ByteLevelDecoder} from "../vendor/tokenizers/tokenizers.min.js";

/** @typedef {{begin: number, end: number}} Span */

// A character with the marks, vowels and end consonants that may become one with it.
const CLUSTER = /[^](?:[\p{M}\u{FF9E}\u{FF9F}\u1160-\u11FF])*/gu;

export class TextPositions {
  /**
   * @param {string} text
   * @param {object} description The content of tokenizer.json.
   * @param {((text: string) => string) | null} normalizer
   */
  constructor(text, description, normalizer) {
    this._spans = [];
    this._normalised = "";
    this._cursor = 0;
    this._normalize = normalizer ?? ((string) => string);
    this._surface = surfaceOf(description);
    for (const match of text.matchAll(CLUSTER)) this._add(match[0], match.index);
  }

  /** The next place of an added token. */
  next(content) {
    return this._find(this._normalize(content));
  }

  /**
   * The places of a word's tokens.
   * @param {string} word As it was split off the normalised text.
   * @param {string[]} tokens
   * @returns {(Span | null)[]}
   */
  nextWord(word, tokens) {
    const whole = this._find(this._surface(word));
    const isSpelled = tokens.join("") === word;
    if (!isSpelled || !whole) return tokens.map(() => whole);
    let from = this._cursor - this._surface(word).length;
    return tokens.map((token) => {
      const begin = from;
      from += this._surface(token).length;
      // The mark of a word's beginning stands for nothing: it is shown as the first character.
      return this._spanOf(begin, Math.max(from, begin + 1));
    });
  }

  _add(cluster, begin) {
    const normalised = this._normalize(cluster);
    const span = {begin, end: begin + cluster.length};
    for (let i = 0; i < normalised.length; i++) this._spans.push(span);
    this._normalised += normalised;
  }

  _find(surface) {
    const place = this._normalised.indexOf(surface, this._cursor);
    if (place < 0) return null;
    this._cursor = place + surface.length;
    return this._spanOf(place, this._cursor);
  }

  _spanOf(from, to) {
    const [first, last] = [this._spans[from], this._spans[to - 1]];
    return first && last ? {begin: first.begin, end: last.end} : null;
  }
}

/** What a word, as the pre-tokenizer spells it, is in the normalised text. */
function surfaceOf(description) {
  const steps = description.pre_tokenizer?.pretokenizers ?? [];
  if (steps.some(({type}) => type === "ByteLevel")) {
    const decoder = new ByteLevelDecoder({type: "ByteLevel"});
    return (word) => decoder.decode([word]).trim();
  }
  const mark = steps.find(({type}) => type === "Metaspace")?.replacement;
  return (word) => (mark && word.startsWith(mark) ? word.slice(mark.length) : word);
}
