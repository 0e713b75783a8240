/**
 * Where a similarity comes from: the share of each pair of words in it.
 *
 * A text's vector is the sum of its words' vectors, scaled. So the similarity of two texts is the
 * sum of the dot products of their words' scaled vectors, exactly. With a head, the hidden units
 * that the whole text switches on are those of its words.
 */

import {scaleTogether} from "./encoder.js";
import {dot, norm, total} from "./vectors.js";

// The beginning of a word, where that is a token by itself, has no text.
const WORD_BEGIN = "▁";

/**
 * @typedef {object} Word
 * @property {string} text As written.
 * @property {number[]} ids The rows that are added for it.
 * @property {boolean} known Whether any of them has a vector.
 */

/** @typedef {Word & {sum: Float64Array, part: Float64Array}} Part Its rows, and these scaled. */

/**
 * @typedef {object} Explanation
 * @property {string[]} first Words with a vector of the first text.
 * @property {string[]} second The same of the second.
 * @property {number[][]} shares Of each pair; their sum is the similarity.
 * @property {number} similarity 0 if one text has no word with a vector.
 * @property {string[]} unknown Words of both texts that have no vector.
 * @property {{first: number[], second: number[]} | null} leftOut Of a model with a head, how much
 *   the cosine falls when a word is left out of its text.
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
  const all = texts.map((words) => partsOf(encoder, words.filter(({known}) => known)));
  const [rows, columns] = [0, 1].map((i) => {
    const other = total(all[1 - i].map(({part}) => part), encoder.dimension);
    return summarised(all[i], other, most);
  });
  const shares = rows.map((one) => columns.map((other) => dot(one.part, other.part)));
  return {
    first: rows.map(({text}) => text),
    second: columns.map(({text}) => text),
    shares,
    similarity: shares.flat().reduce((sum, share) => sum + share, 0),
    unknown: texts.flat().filter(({known}) => !known).map(({text}) => text),
    leftOut: encoder.head && {
      first: fallsWithout(encoder, rows, columns),
      second: fallsWithout(encoder, columns, rows),
    },
  };
}

/**
 * The words of a text; punctuation is a word, too. In scripts that are written without spaces, each
 * piece of a word is one.
 * @param {import("./encoder.js").Encoder} encoder
 * @param {string} text
 * @returns {Word[]}
 */
function wordsOf(encoder, text) {
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

/**
 * What each word adds to its text's vector, so that this is the sum of them.
 * @returns {Part[]}
 */
function partsOf(encoder, words) {
  const {dimension, settings, table, head} = encoder;
  const sums = words.map(({ids}) => table.sum(ids));
  const vectors = head ? behind(head, sums, table.dimension) : sums.map((sum) => sum.slice());
  const segments = settings.scaled.length > 1 ? settings.scaled : [{width: dimension, length: 1}];
  scaleTogether(vectors, segments);
  return words.map((word, i) => ({...word, sum: sums[i], part: vectors[i].subarray(0, dimension)}));
}

/** The vectors of a text's words, taken through the hidden units that the text switches on. */
function behind(head, vectors, dimension) {
  const isOn = head.switchedOn(head.hidden(total(vectors, dimension)));
  return vectors.map((vector) => head.behind(vector, head.hidden(vector), isOn));
}

/** How much the cosine of two texts falls without each word of the first, behind the head. */
function fallsWithout(encoder, parts, others) {
  const {table, head, dimension} = encoder;
  const whole = total(parts.map(({sum}) => sum), table.dimension);
  const other = total(others.map(({part}) => part), dimension);
  const cosine = (vector) => {
    const kept = head.apply(vector).subarray(0, dimension);
    return dot(kept, other) / (norm(kept) || 1);
  };
  const similarity = cosine(whole);
  return parts.map(({sum}) => similarity - cosine(whole.map((value, i) => value - sum[i])));
}

/** The words with the largest shares in the similarity to the other text, and the rest as one. */
function summarised(parts, other, most) {
  if (parts.length <= most) return parts;
  const sizes = parts.map(({part}) => Math.abs(dot(part, other)));
  const order = sizes.map((_, i) => i).sort((i, j) => sizes[j] - sizes[i]);
  const kept = order.slice(0, most - 1).sort((i, j) => i - j);
  const rest = order.slice(most - 1).map((i) => parts[i]);
  const others = {
    text: `${rest.length} other words`,
    sum: total(rest.map(({sum}) => sum), rest[0].sum.length),
    part: total(rest.map(({part}) => part), other.length),
  };
  return [...kept.map((i) => parts[i]), others];
}
