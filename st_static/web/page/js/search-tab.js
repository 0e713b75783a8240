/** The tab that searches in a list of texts. */

import {byId, showHits} from "./dom.js";
import {TextIndex} from "./search.js";

const SHOWN = 20;
const LARGEST_FILE = 20_000_000;
const NOT_UTF8 = "is not text in UTF-8";

/**
 * @param {import("./encoder.js").Encoder} encoder
 * @param {{query: string, texts: string[]}} example
 */
export function startSearch(encoder, example) {
  const index = new TextIndex(encoder);
  const show = () => search(index);
  byId("query").value = example.query;
  byId("texts").value = example.texts.join("\n");
  byId("query").addEventListener("input", show);
  byId("texts").addEventListener("input", show);
  byId("file").addEventListener("change", () => openFile(show));
  show();
}

/** Encode the texts that are new, and rank all. */
async function search(index) {
  const begun = performance.now();
  const isLatest = await index.replace(linesOf(byId("texts").value));
  if (!isLatest) return;
  const query = byId("query").value.trim();
  const hits = query ? index.search(query, SHOWN) : [];
  const duration = Math.max(1, Math.round(performance.now() - begun));
  showHits(byId("hits"), hits);
  byId("search-status").textContent = query
    ? `${count(index.size)} in ${duration} ms`
    : `${count(index.size)}. Type what to search for.`;
}

async function openFile(done) {
  const [file] = byId("file").files;
  if (!file) return;
  const problem = file.size > LARGEST_FILE ? "is larger than 20 MB" : await readInto(file);
  byId("file-problem").textContent = problem ? `${file.name} ${problem}.` : "";
  if (!problem) done();
}

/** Put a file's text into the list; what is wrong with the file, if anything is. */
async function readInto(file) {
  try {
    const text = new TextDecoder("utf-8", {fatal: true}).decode(await file.arrayBuffer());
    if (text.includes("\0")) return NOT_UTF8; // UTF-16, whose bytes may also be UTF-8
    byId("texts").value = text;
    return "";
  } catch {
    return NOT_UTF8;
  }
}

function linesOf(text) {
  return text.split(/\r?\n/).filter((line) => line.trim());
}

function count(number) {
  return `${number.toLocaleString("en")} ${number === 1 ? "text" : "texts"}`;
}
