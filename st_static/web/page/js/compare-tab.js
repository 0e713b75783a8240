/** The tab that compares two texts. */

import {byId, formatScore} from "./dom.js";
import {explain} from "./explain.js";
import {heatMap} from "./heat-map.js";

// A character that is no letter and no number is not worth a line about unknown words.
const PUNCTUATION = /^[\p{P}\p{S}]*$/u;

/**
 * @param {import("./encoder.js").Encoder} encoder
 * @param {[string, string]} texts What is compared first.
 */
export function startCompare(encoder, texts) {
  const inputs = [byId("first"), byId("second")];
  inputs.forEach((input, i) => {
    input.value = texts[i];
    input.addEventListener("input", () => show(encoder, inputs));
  });
  byId("of-head").hidden = !encoder.head;
  byId("measure").textContent = encoder.settings.scaled.length > 1 ? "Dot product" : "Cosine";
  show(encoder, inputs);
}

function show(encoder, [first, second]) {
  const explanation = explain(encoder, first.value, second.value);
  byId("similarity").textContent = formatScore(explanation.similarity);
  byId("heat-map").replaceChildren(heatMap(explanation));
  const unknown = explanation.unknown.filter((text) => !PUNCTUATION.test(text));
  const words = [...new Set(unknown)].slice(0, 20).join(", ");
  byId("unknown").textContent = words && `The model has no vector for: ${words}`;
}
