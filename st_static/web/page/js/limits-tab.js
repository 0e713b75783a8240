/** The tab that shows where the model goes wrong, with its own cosines. */

import {byId, element, formatScore} from "./dom.js";

/**
 * @typedef {object} Limit
 * @property {string} limit What the two texts test.
 * @property {string} should What a reader would expect.
 * @property {string} first
 * @property {string} second
 */

/**
 * @param {import("./encoder.js").Encoder} encoder
 * @param {{suited: string, unsuited: string, pairs: Limit[]}} limits
 */
export function startLimits(encoder, {suited, unsuited, pairs}) {
  byId("suited").append(element("strong", {}, "For "), `${suited}.`);
  byId("unsuited").append(element("strong", {}, "Not for "), `${unsuited}. For example:`);
  byId("pairs").append(...pairs.map((pair) => item(encoder, pair)));
}

function item(encoder, {limit, should, first, second}) {
  const similarity = encoder.similarity(encoder.encode(first), encoder.encode(second));
  const score = element("span", {className: "score"}, formatScore(similarity));
  return element(
    "li",
    {},
    element("h2", {}, limit),
    element("blockquote", {}, first),
    element("blockquote", {}, second),
    element("p", {}, "This model: ", score, `. It should be ${should}.`),
  );
}
