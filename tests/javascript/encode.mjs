// Encode texts with transformers.js, and ids with onnxruntime-node, as a test asks for it.
//
//     node encode.mjs LIBRARY REQUEST ANSWER
//
// LIBRARY is transformers.js. REQUEST is a file of {folder, texts, encoded, unknown, batches}:
// answered are the ids of `texts`; the vectors of `encoded`, and of `unknown`, which have no known
// word; and those of `batches` of ids.

import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";

const [library, request, answer] = process.argv.slice(2);
const { AutoModel, AutoTokenizer, env, pipeline } = await import(library);
const { folder, texts, encoded, unknown, batches } = JSON.parse(readFileSync(request, "utf8"));
const files = { fp32: "onnx/model.onnx", q8: "onnx/model_quantized.onnx" };

env.allowRemoteModels = false;
env.localModelPath = path.dirname(folder);
const name = path.basename(folder);
const tokenizer = await AutoTokenizer.from_pretrained(name);

async function pooled(dtype) {
  const encode = await pipeline("feature-extraction", name, { dtype });
  const options = { pooling: "mean", normalize: true };
  const alone = [];
  for (const text of encoded) alone.push((await encode(text, options)).tolist()[0]);
  return { alone, together: (await encode(encoded, options)).tolist() };
}

async function sentences(dtype) {
  const model = await AutoModel.from_pretrained(name, { dtype });
  const inputs = tokenizer([...encoded, ...unknown], { padding: true });
  return (await model(inputs)).sentence_embedding.tolist();
}

async function ofIds(dtype) {
  // Loaded here: a process has room for one version of it.
  const { InferenceSession, Tensor } = await import("onnxruntime-node");
  const session = await InferenceSession.create(path.join(folder, files[dtype]));
  const asTensor = (rows) =>
    new Tensor("int64", BigInt64Array.from(rows.flat(), BigInt), [rows.length, rows[0].length]);
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

const result = { ids: texts.map((text) => tokenizer(text, { return_tensor: false }).input_ids) };
for (const dtype of encoded.length ? Object.keys(files) : []) {
  result[dtype] = { ...(await pooled(dtype)), sentences: await sentences(dtype) };
  if (batches.length) result[dtype].session = await ofIds(dtype);
}
writeFileSync(answer, JSON.stringify(result));
