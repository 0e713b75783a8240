/** A table of the shares of word pairs, coloured by their size. */

import {element, MINUS, setStrength} from "./dom.js";

// A cell with the largest share is coloured so strongly that its number can still be read.
const STRONGEST = 70;
const CAPTION = "The share of each pair of words in it, in hundredths: together they are all of it.";

/**
 * @param {import("./explain.js").Explanation} explanation
 * @returns {HTMLElement}
 */
export function heatMap({first, second, shares}) {
  if (!first.length || !second.length) {
    return element("p", {className: "note"}, "One of the texts has no word that the model knows.");
  }
  const largest = Math.max(...shares.flat().map(Math.abs)) || 1;
  const rows = first.map((word, i) =>
    element("tr", {}, header(word, "row"), ...shares[i].map((share) => cell(share, largest))),
  );
  return element(
    "table",
    {},
    element("caption", {}, element("span", {}, CAPTION)),
    element("thead", {}, element("tr", {}, element("td"), ...second.map((w) => header(w, "col")))),
    element("tbody", {}, ...rows),
  );
}

function header({text}, scope) {
  return element("th", {scope, title: text}, element("span", {className: "long"}, text));
}

function cell(share, largest) {
  const rounded = (100 * share).toFixed(1);
  const isNothing = Number(rounded) === 0;
  const sign = share < 0 ? "negative" : "positive";
  const node = element(
    "td",
    {className: isNothing ? `faint ${sign}` : sign, title: share.toFixed(4)},
    isNothing ? "0" : rounded.replace("-", MINUS),
  );
  setStrength(node, (STRONGEST * Math.abs(share)) / largest);
  return node;
}
