/** Search in a list of texts, as `SearchIndex` of st_static does. */

import {dot, norm, scale} from "./vectors.js";
import {WordIndex} from "./words.js";

// So long, in milliseconds, texts are encoded before the page may do something else.
const SLICE = 12;

/** @typedef {{text: string, score: number}} Hit */

export class TextIndex {
  /** @param {import("./encoder.js").Encoder} encoder */
  constructor(encoder) {
    this._encoder = encoder;
    this._vectors = new Map();
    this._texts = [];
    this._words = new WordIndex([]);
    this._latest = 0;
  }

  get size() {
    return this._texts.length;
  }

  /**
   * Take these texts in place of the former ones; those that were there are not encoded again.
   * @param {string[]} texts
   * @returns {Promise<boolean>} False if other texts came meanwhile.
   */
  async replace(texts) {
    const mine = ++this._latest;
    const vectors = new Map();
    let begun = performance.now();
    for (const text of texts) {
      if (!vectors.has(text)) vectors.set(text, this._vectors.get(text) ?? this._unit(text));
      if (performance.now() - begun > SLICE) {
        await pause();
        if (mine !== this._latest) return false;
        begun = performance.now();
      }
    }
    this._texts = [...vectors.keys()];
    this._vectors = vectors;
    this._words = new WordIndex(this._texts);
    return true;
  }

  /**
   * The best texts for a query by meaning and by words: the mean of the cosine and of BM25. Texts
   * without either are not found.
   * @param {string} query
   * @param {number} most
   * @returns {Hit[]}
   */
  search(query, most) {
    const vector = this._unit(query);
    const vectors = this._texts.map((text) => this._vectors.get(text));
    const isKnown = vectors.map((other) => norm(vector) > 0 && norm(other) > 0);
    const words = this._words.scores(query);
    const hits = this._texts.map((text, i) => {
      const score = (dot(vector, vectors[i]) + words[i]) / 2;
      return {text, score, found: isKnown[i] || words[i] > 0};
    });
    const found = hits.filter((hit) => hit.found);
    return found.sort((one, other) => other.score - one.score).slice(0, most);
  }

  /** A text's vector, of length 1. */
  _unit(text) {
    const vector = Float32Array.from(this._encoder.encode(text));
    scale(vector, 1 / (norm(vector) || 1));
    return vector;
  }
}

/** Let the page draw and listen. */
function pause() {
  return new Promise((resolve) => setTimeout(resolve));
}
