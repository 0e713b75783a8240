/** Texts to vectors, as sentence-transformers makes them. */

import {dot, norm, scale, total} from "./vectors.js";

// As torch's normalize has it.
const SMALLEST_NORM = 1e-12;

/**
 * @typedef {object} Settings What model.json says of what happens to the mean.
 * @property {string} prompt What is put before each text.
 * @property {{width: number, length: number}[]} scaled Neighbouring dimensions, and the length that
 *   they are scaled to; empty if nothing is scaled.
 * @property {number | null} truncate_dim How many dimensions are kept, at last; null is all.
 * @property {"cosine" | "dot"} similarity
 */

export class Encoder {
  /**
   * @param {import("./tokenizer.js").Tokenizer} tokenizer
   * @param {import("./table.js").Table} table
   * @param {Settings} settings
   * @param {import("./head.js").Head | null} head
   */
  constructor(tokenizer, table, settings, head) {
    this.tokenizer = tokenizer;
    this.table = table;
    this.settings = settings;
    this.head = head;
  }

  /** Number of dimensions of a vector. */
  get dimension() {
    return this.settings.truncate_dim ?? this.table.dimension;
  }

  /**
   * The vector of a text; zeros if the model knows no word of it.
   * @param {string} text
   * @returns {Float64Array}
   */
  encode(text) {
    const ids = this.tokenizer.ids(this.settings.prompt + text);
    let vector = this.table.sum(ids);
    if (ids.length) scale(vector, 1 / ids.length);
    if (this.head) vector = this.head.apply(vector);
    scaleTogether([vector], this.settings.scaled);
    return vector.subarray(0, this.dimension);
  }

  /**
   * How similar two vectors are, by the model's own measure.
   * @param {import("./vectors.js").Vector} one
   * @param {import("./vectors.js").Vector} other
   */
  similarity(one, other) {
    if (this.settings.similarity === "dot") return dot(one, other);
    return dot(one, other) / Math.max(norm(one) * norm(other), SMALLEST_NORM);
  }
}

/**
 * Scale vectors in place, so that each segment of their sum has its length; zeros stay zeros.
 * @param {Float64Array[]} vectors
 * @param {{width: number, length: number}[]} segments
 */
export function scaleTogether(vectors, segments) {
  let start = 0;
  for (const {width, length} of segments) {
    const pieces = vectors.map((vector) => vector.subarray(start, start + width));
    const sum = norm(total(pieces, width));
    for (const piece of pieces) scale(piece, sum && length / Math.max(sum, SMALLEST_NORM));
    start += width;
  }
}
