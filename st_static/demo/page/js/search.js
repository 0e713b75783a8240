/** Search in a list of texts. */

import {dot, norm, scale} from "./vectors.js";

// So long, in milliseconds, texts are encoded before the page may do something else.
const SLICE = 12;

/** @typedef {{text: string, score: number}} Hit */

export class TextIndex {
  /** @param {import("./encoder.js").Encoder} encoder */
  constructor(encoder) {
    this._encoder = encoder;
    this._vectors = new Map();
    this._texts = [];
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
    return true;
  }

  /**
   * The texts that are most similar to a query, the best first.
   * @param {string} query
   * @param {number} most
   * @returns {Hit[]}
   */
  search(query, most) {
    const vector = this._unit(query);
    const hits = this._texts.map((text) => ({text, score: dot(vector, this._vectors.get(text))}));
    return hits.sort((one, other) => other.score - one.score).slice(0, most);
  }

  /** A text's vector, of length 1 if the model compares by cosine. */
  _unit(text) {
    const vector = Float32Array.from(this._encoder.encode(text));
    if (this._encoder.settings.similarity === "cosine") scale(vector, 1 / (norm(vector) || 1));
    return vector;
  }
}

/** Let the page draw and listen. */
function pause() {
  return new Promise((resolve) => setTimeout(resolve));
}
