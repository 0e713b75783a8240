// Encode texts with transformers.js, and ids with onnxruntime-node, as a test asks for it.
//
//     node encode.mjs LIBRARY REQUEST ANSWER
//
// LIBRARY is a name of package.json. REQUEST is a file of {folder, texts, encoded, batches}:
// the ids of `texts` are answered, the vectors of `encoded` and of `batches`, which are ids.

import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { InferenceSession, Tensor } from "onnxruntime-node";

const [library, request, answer] = process.argv.slice(2);
const { AutoTokenizer, env, pipeline } = await import(library);
const { folder, texts, encoded, batches } = JSON.parse(readFileSync(request, "utf8"));
const files = { fp32: "onnx/model.onnx", q8: "onnx/model_quantized.onnx" };

env.allowRemoteModels = false;
env.localModelPath = path.dirname(folder);
const name = path.basename(folder);

async function vectorsOfTexts(dtype) {
  const encode = await pipeline("feature-extraction", name, { dtype });
  const rows = [];
  for (const text of encoded) {
    rows.push((await encode(text, { pooling: "mean", normalize: true })).tolist()[0]);
  }
  const together = await encode(encoded, { pooling: "mean", normalize: true });
  return { alone: rows, together: together.tolist() };
}

function asTensor(rows) {
  const flat = BigInt64Array.from(rows.flat(), BigInt);
  return new Tensor("int64", flat, [rows.length, rows[0].length]);
}

async function vectorsOfIds(dtype) {
  const session = await InferenceSession.create(path.join(folder, files[dtype]));
  const vectors = [];
  for (const { ids, mask } of batches) {
    const inputs = { input_ids: asTensor(ids), attention_mask: asTensor(mask) };
    const { sentence_embedding: result } = await session.run(inputs);
    const [rows, width] = result.dims;
    for (let i = 0; i < rows; ++i) {
      vectors.push(Array.from(result.data.slice(i * width, (i + 1) * width)));
    }
  }
  return vectors;
}

const tokenizer = await AutoTokenizer.from_pretrained(name);
const ids = texts.map((text) => tokenizer(text, { return_tensor: false }).input_ids);
const result = { ids };
for (const dtype of Object.keys(files)) {
  result[dtype] = { ...(await vectorsOfTexts(dtype)), session: await vectorsOfIds(dtype) };
}
writeFileSync(answer, JSON.stringify(result));
