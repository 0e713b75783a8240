/** Loads the model and starts the tabs. */

import {startCompare} from "./compare-tab.js";
import {byId} from "./dom.js";
import {startLimits} from "./limits-tab.js";
import {loadModel} from "./model.js";
import {startSearch} from "./search-tab.js";
import {startTabs} from "./tabs.js";
import {startWords} from "./words-tab.js";

function megabytes(bytes) {
  return (bytes / 1e6).toFixed(1);
}

function showProgress(loaded, all) {
  byId("progress").value = loaded / all;
  byId("loaded").textContent =
    `Loading the model: ${megabytes(loaded)} of ${megabytes(all)} MB`;
}

/** A language in English; a tag that is none as it is. */
function languageName(tag) {
  try {
    return new Intl.DisplayNames(["en"], {type: "language"}).of(tag);
  } catch {
    return tag;
  }
}

/** What is known of the model, in a line. */
function summary({tokens, dimension, languages, license}) {
  return [
    "A static sentence encoder",
    `${tokens.toLocaleString("en")} tokens × ${dimension} dimensions`,
    languages.map(languageName).join(", "),
    license && `licence: ${license}`,
  ]
    .filter(Boolean)
    .join(" · ");
}

function showFacts(facts) {
  document.title = facts.name;
  byId("name").textContent = facts.name;
  byId("facts").textContent = summary(facts);
}

async function start() {
  byId("without-server").hidden = true;
  byId("loading").hidden = false;
  const {facts, encoder} = await loadModel(showProgress);
  showFacts(facts);
  startCompare(encoder, facts.examples.compare);
  startSearch(encoder, facts.examples.search);
  startWords(encoder, facts.examples.word);
  startLimits(encoder, facts.limits);
  startTabs(document.querySelector("[role=tablist]"));
  byId("start").hidden = true;
  byId("app").hidden = false;
}

start().catch((error) => {
  byId("loading").hidden = true;
  byId("failed").hidden = false;
  byId("failed").textContent = `The model could not be loaded: ${error.message}. Reload the page.`;
  throw error;
});
