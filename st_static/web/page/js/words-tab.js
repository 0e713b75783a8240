/** The tab with the nearest words of a word. */

import {byId, showHits} from "./dom.js";
import {Neighbours} from "./neighbours.js";

const SHOWN = 20;

/**
 * @param {import("./encoder.js").Encoder} encoder
 * @param {string} word What is looked up first.
 */
export function startWords(encoder, word) {
  const neighbours = new Neighbours(encoder);
  const show = () => look(neighbours, byId("word").value.trim());
  byId("word").value = word;
  byId("word").addEventListener("input", show);
  // Only when it is looked at: the first time takes longest.
  byId("tab-words").addEventListener("click", show, {once: true});
  byId("tab-words").addEventListener("focus", show, {once: true});
}

function look(neighbours, word) {
  const begun = performance.now();
  const hits = word ? neighbours.nearest(word, SHOWN) : [];
  const duration = Math.max(1, Math.round(performance.now() - begun));
  showHits(byId("neighbours"), hits);
  byId("words-status").textContent = status(neighbours, word, hits, duration);
}

function status(neighbours, word, hits, duration) {
  if (!word) return "Type a word.";
  if (!hits.length) return "The model has no vector for this.";
  return `${neighbours.size.toLocaleString("en")} words in ${duration} ms`;
}
