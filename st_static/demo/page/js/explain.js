/**
 * Where a similarity comes from: the share of each pair of words in it.
 *
 * A text's vector is the sum of its words' vectors, scaled. So the similarity of two texts is the
 * sum of the dot products of their words' scaled vectors, exactly. With a head, the hidden units
 * that the whole text switches on are those of its words.
 */

import {dot, norm, scale, total} from "./vectors.js";

// The beginning of a word, where that is a token by itself, has no text.
const WORD_BEGIN = "▁";

/**
 * @typedef {object} Word
 * @property {string} text As written.
 * @property {number[]} ids The rows that are added for it.
 * @property {boolean} known Whether any of them has a vector.
 */

/**
 * @typedef {object} Explanation
 * @property {Word[]} first Words with a vector of the first text.
 * @property {Word[]} second The same of the second.
 * @property {number[][]} shares Of each pair; their sum is the similarity.
 * @property {number} similarity 0 if one text has no word with a vector.
 * @property {Word[]} unknown Words of both texts that have no vector.
 */

/**
 * Split the similarity of two texts into the shares of their word pairs.
 * @param {import("./encoder.js").Encoder} encoder
 * @param {string} first
 * @param {string} second
 * @param {number} most If a text has more words, those with the smallest shares are put together.
 * @returns {Explanation}
 */
export function explain(encoder, first, second, most = 40) {
  const texts = [first, second].map((text) => wordsOf(encoder, text));
  const known = texts.map((words) => words.filter((word) => word.known));
  const parts = known.map((words) => sharesOf(encoder, words));
  const [rows, columns] = [0, 1].map((i) =>
    summarised(known[i], parts[i], total(parts[1 - i], encoder.dimension), most),
  );
  const shares = rows.parts.map((one) => columns.parts.map((other) => dot(one, other)));
  return {
    first: rows.words,
    second: columns.words,
    shares,
    similarity: shares.flat().reduce((sum, share) => sum + share, 0),
    unknown: texts.flat().filter((word) => !word.known),
  };
}

/**
 * The words of a text; punctuation is a word, too. In scripts that are written without spaces, each
 * piece of a word is one.
 * @param {import("./encoder.js").Encoder} encoder
 * @param {string} text
 * @returns {Word[]}
 */
export function wordsOf(encoder, text) {
  const {table, settings, tokenizer} = encoder;
  const whole = settings.prompt + text;
  const unspaced = settings.unspaced ? new RegExp(settings.unspaced, "u") : null;
  const groups = [];
  for (const token of tokenizer.tokens(whole)) {
    if (token.token === WORD_BEGIN && table.isZero(token.id)) continue;
    const key = unspaced?.test(token.token) ? null : token.word;
    const last = groups.at(-1);
    if (last && key !== null && last.key === key) last.tokens.push(token);
    else groups.push({key, tokens: [token]});
  }
  return groups.map(({tokens}) => ({
    text: written(whole, tokens),
    ids: tokens.map(({id}) => id),
    known: tokens.some(({id}) => !table.isZero(id)),
  }));
}

/** What tokens that follow one another are of a text. */
function written(text, tokens) {
  const [first, last] = [tokens[0], tokens.at(-1)];
  return first.span && last.span
    ? text.slice(first.span.begin, last.span.end).trim()
    : first.spelled;
}

/** What each word adds to its text's vector, so that this is the sum of them. */
function sharesOf(encoder, words) {
  let vectors = words.map(({ids}) => encoder.table.sum(ids));
  if (encoder.head) vectors = behind(encoder.head, vectors, encoder.table.dimension);
  const {scaled} = encoder.settings;
  const segments = scaled.length > 1 ? scaled : [{width: encoder.dimension, length: 1}];
  let start = 0;
  for (const {width, length} of segments) {
    const pieces = vectors.map((vector) => vector.subarray(start, start + width));
    const factor = length / (norm(total(pieces, width)) || 1);
    for (const piece of pieces) scale(piece, factor);
    start += width;
  }
  return vectors.map((vector) => vector.subarray(0, encoder.dimension));
}

/** The vectors of a text's words, taken through the hidden units that the text switches on. */
function behind(head, vectors, dimension) {
  const isOn = head.switchedOn(head.hidden(total(vectors, dimension)));
  return vectors.map((vector) => head.behind(vector, head.hidden(vector), isOn));
}

/** The words with the largest shares in the similarity to the other text, and the rest as one. */
function summarised(words, parts, other, most) {
  if (words.length <= most) return {words, parts};
  const sizes = parts.map((part) => Math.abs(dot(part, other)));
  const order = sizes.map((_, i) => i).sort((i, j) => sizes[j] - sizes[i]);
  const kept = order.slice(0, most - 1).sort((i, j) => i - j);
  const rest = order.slice(most - 1);
  const others = {text: `${rest.length} other words`, ids: [], known: true};
  return {
    words: [...kept.map((i) => words[i]), others],
    parts: [...kept.map((i) => parts[i]), total(rest.map((i) => parts[i]), other.length)],
  };
}
