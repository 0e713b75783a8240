/** Small helpers for the page. Texts are only ever set as text, never as HTML. */

/** As wide as a digit. */
export const MINUS = "−";

/**
 * @param {string} id
 * @returns {any} The element, which is there.
 */
export function byId(id) {
  return document.getElementById(id);
}

/**
 * A new element.
 * @param {string} name
 * @param {{className?: string, title?: string, scope?: string}} properties
 * @param {...(Node | string)} children Strings become text.
 */
export function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

/**
 * How strongly an element is coloured.
 * @param {HTMLElement} node
 * @param {number} percent From 0 to 100.
 */
export function setStrength(node, percent) {
  node.style.setProperty("--strength", String(Math.round(percent)));
}

/**
 * A list of texts with scores.
 * @param {HTMLElement} list
 * @param {{text: string, score: number}[]} hits
 */
export function showHits(list, hits) {
  const items = hits.map(({text, score}) => {
    const number = element("span", {className: "score"}, formatScore(score));
    const item = element("li", {}, number, element("span", {}, text));
    setStrength(item, 100 * Math.min(1, Math.max(0, score)));
    return item;
  });
  list.replaceChildren(...items);
}

/**
 * A score with three digits after the point; nothing that is rounded to zero is below it.
 * @param {number} score
 */
export function formatScore(score) {
  const rounded = score.toFixed(3);
  return rounded.replace(/^-(0\.0+)$/, "$1").replace("-", MINUS);
}
