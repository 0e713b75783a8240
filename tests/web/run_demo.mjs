// Runs the modules of a demo page in node: lines of JSON from stdin, an answer a line to stdout.

import {readFileSync} from "node:fs";
import {createInterface} from "node:readline";
import {pathToFileURL} from "node:url";

const demo = process.argv[2];
const module = (name) => import(pathToFileURL(`${demo}/js/${name}.js`));
const json = (name) => JSON.parse(readFileSync(`${demo}/model/${name}.json`, "utf-8"));

const {buildEncoder} = await module("model");
const {explain} = await module("explain");
const {Neighbours} = await module("neighbours");
const {TextIndex} = await module("search");
const {wordsOf} = await module("words");
const bytes = readFileSync(`${demo}/model/table.safetensors`);
const weights = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
const encoder = buildEncoder(json("model").settings, json("tokenizer"), weights);
const neighbours = new Neighbours(encoder);

const answers = {
  ids: ({texts}) => texts.map((text) => encoder.tokenizer.ids(text)),
  vectors: ({texts}) => texts.map((text) => [...encoder.encode(text)]),
  explain: ({first, second, most}) => explain(encoder, first, second, most),
  words: ({texts}) => texts.map(wordsOf),
  nearest: ({text}) => neighbours.nearest(text, 20),
  search: async ({texts, query}) => {
    const index = new TextIndex(encoder);
    await index.replace(texts);
    return index.search(query, 20);
  },
  // Those that this node's Unicode has.
  assigned: ({texts}) => texts.map((text) => !/\p{Cn}/u.test(text)),
};

for await (const line of createInterface({input: process.stdin})) {
  const request = JSON.parse(line);
  try {
    const answer = {value: await answers[request.what](request)};
    console.log(JSON.stringify(answer));
  } catch (error) {
    console.log(JSON.stringify({error: error.stack}));
  }
}
