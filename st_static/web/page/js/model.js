/** The model's files: fetched once, then all is in memory. */

import {Encoder} from "./encoder.js";
import {Head} from "./head.js";
import {readSafetensors} from "./safetensors.js";
import {Table} from "./table.js";
import {Tokenizer} from "./tokenizer.js";

/**
 * Fetch the model.
 * @param {(loaded: number, all: number) => void} onProgress Called with bytes.
 * @returns {Promise<{facts: object, encoder: Encoder}>}
 */
export async function loadModel(onProgress) {
  const facts = await (await fetchFile("model/model.json")).json();
  const all = Object.values(facts.bytes).reduce((sum, bytes) => sum + bytes, 0);
  let loaded = 0;
  const count = (bytes) => onProgress((loaded += bytes), all);
  const [tokenizer, weights] = await Promise.all([
    download("model/tokenizer.json", count),
    download("model/table.safetensors", count),
  ]);
  const description = JSON.parse(new TextDecoder().decode(tokenizer));
  return {facts, encoder: buildEncoder(facts.settings, description, weights)};
}

/**
 * @param {import("./encoder.js").Settings} settings
 * @param {object} description The content of tokenizer.json.
 * @param {ArrayBuffer} weights The content of table.safetensors.
 */
export function buildEncoder(settings, description, weights) {
  const arrays = readSafetensors(weights);
  const widths = settings.scaled.map(({width}) => width);
  const table = new Table(arrays.rows, arrays.scales, widths.length > 1 ? widths : undefined);
  const head = arrays.head_first
    ? new Head(arrays.head_first, arrays.head_second, table.dimension)
    : null;
  return new Encoder(new Tokenizer(description), table, settings, head);
}

async function fetchFile(path) {
  const response = await fetch(path);
  if (!response.ok) throw new Error(`${path} is missing (status ${response.status})`);
  return response;
}

/** The content of a file, counted as it comes. */
async function download(path, count) {
  const response = await fetchFile(path);
  const parts = [];
  const reader = response.body.getReader();
  for (;;) {
    const {done, value} = await reader.read();
    if (done) return new Blob(parts).arrayBuffer();
    parts.push(value);
    count(value.length);
  }
}
