/** The words of the table that are nearest to a word. */

import {norm} from "./vectors.js";

export class Neighbours {
  /** @param {import("./encoder.js").Encoder} encoder */
  constructor(encoder) {
    this._encoder = encoder;
    const {scaled, truncate_dim} = encoder.settings;
    const whole = [{width: truncate_dim ?? encoder.table.dimension, length: 1}];
    this._segments = scaled.length > 1 ? scaled : whole;
  }

  /** How many words there are to choose from. */
  get size() {
    return this._words?.length ?? 0;
  }

  /**
   * The nearest words, by the cosine of their vectors in the table, before any head.
   * @param {string} text One word, or a few.
   * @param {number} most
   * @returns {{text: string, score: number}[]}
   */
  nearest(text, most) {
    this._words ??= this._wordsOfTable();
    const {table, tokenizer} = this._encoder;
    const own = tokenizer.ids(text).filter((id) => !table.isZero(id));
    const query = table.sum(own);
    if (!norm(query)) return [];
    const scores = this._scores(query);
    const order = Array.from(this._words.keys()).sort((i, j) => scores[j] - scores[i]);
    const others = order.filter((i) => own.length > 1 || this._words[i].id !== own[0]);
    return others.slice(0, most).map((i) => ({text: this._words[i].text, score: scores[i]}));
  }

  /** The cosine of each word's row with a vector, or its dot product segment by segment. */
  _scores(query) {
    const {rows, dimension} = this._encoder.table;
    const scores = new Float32Array(this._words.length);
    let start = 0;
    this._segments.forEach(({width, length}, place) => {
      const segment = Float32Array.from(query.subarray(start, start + width));
      const factor = length ** 2 / (norm(segment) || 1);
      const inverse = this._inverseNorms(place, start, width);
      for (let word = 0; word < scores.length; word++) {
        const row = this._words[word].id * dimension + start;
        let sum = 0;
        for (let i = 0; i < width; i++) sum += rows[row + i] * segment[i];
        scores[word] += sum * inverse[word] * factor;
      }
      start += width;
    });
    return scores;
  }

  /** 1 / length of each word's row, in steps of its scale; computed once. */
  _inverseNorms(place, start, width) {
    this._inverse ??= [];
    this._inverse[place] ??= Float32Array.from(this._words, ({id}) => {
      const {rows, dimension} = this._encoder.table;
      const row = rows.subarray(id * dimension + start, id * dimension + start + width);
      return 1 / (norm(row) || 1);
    });
    return this._inverse[place];
  }

  /** Tokens with a vector that begin a word, as they are read. */
  _wordsOfTable() {
    const {table, settings, tokenizer} = this._encoder;
    const {word_begin: begin, continuation, unspaced} = settings;
    const alone = unspaced ? new RegExp(unspaced, "u") : null;
    const isWord = (token) => {
      if (continuation && token.startsWith(continuation)) return false;
      return !begin || token.startsWith(begin) || Boolean(alone?.test(token));
    };
    const words = [];
    tokenizer.vocabulary.forEach((token, id) => {
      const text = begin && token.startsWith(begin) ? token.slice(begin.length) : token;
      if (text && isWord(token) && !table.isZero(id)) words.push({text, id});
    });
    return words;
  }
}
