/** A table of the shares of word pairs, coloured by their size. */

import {element, MINUS, setStrength} from "./dom.js";

// A cell with the largest share is coloured so strongly that its number can still be read.
const STRONGEST = 70;
const CAPTION = "What each pair of words adds to it, or takes away, in hundredths.";
const LEFT_OUT = "left out";
// Of these scripts, words that stand over a column are written downwards.
const UPRIGHT = /[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Hangul}]/u;

/**
 * @param {import("./explain.js").Explanation} explanation
 * @returns {HTMLElement}
 */
export function heatMap({first, second, shares, leftOut}) {
  if (!first.length || !second.length) {
    return element("p", {className: "note"}, "One of the texts has no word that the model knows.");
  }
  const largest = Math.max(...shares.flat().map(Math.abs)) || 1;
  const rows = first.map((word, i) => {
    const cells = shares[i].map((share) => shareCell(share, largest));
    return row(word, cells, leftOut && [leftOutCell(leftOut.first[i])]);
  });
  if (leftOut) {
    const corner = element("td", {className: "left-out"});
    rows.push(row(LEFT_OUT, leftOut.second.map(leftOutCell), [corner]));
  }
  const words = leftOut ? [...second, LEFT_OUT] : second;
  return element(
    "table",
    {},
    element("caption", {}, element("span", {}, CAPTION)),
    element("thead", {}, element("tr", {}, element("td"), ...words.map((w) => header(w, "col")))),
    element("tbody", {}, ...rows),
  );
}

function row(word, cells, last) {
  return element("tr", {}, header(word, "row"), ...cells, ...(last ?? []));
}

function header(text, scope) {
  const className = UPRIGHT.test(text) ? "long upright" : "long";
  return element("th", {scope, title: text}, element("span", {className}, text));
}

/** The share of a pair: the stronger, the larger; the root lets small ones be seen beside a large. */
function shareCell(share, largest) {
  const node = numberCell(share, share < 0 ? "share negative" : "share positive");
  setStrength(node, STRONGEST * Math.sqrt(Math.abs(share) / largest));
  return node;
}

function leftOutCell(fall) {
  return numberCell(fall, "left-out");
}

function numberCell(value, className) {
  const rounded = (100 * value).toFixed(1);
  const isNothing = Number(rounded) === 0;
  return element(
    "td",
    {className: isNothing ? `${className} faint` : className, title: value.toFixed(4)},
    isNothing ? "0" : rounded.replace("-", MINUS),
  );
}
