/** Arrays out of a safetensors file. */

/** @typedef {Float32Array | Int8Array} Numbers */

const KINDS = {F32: Float32Array, I8: Int8Array};

/**
 * The arrays of a file, by name, without their shapes.
 * @param {ArrayBuffer} file
 * @returns {Record<string, Numbers>}
 */
export function readSafetensors(file) {
  const headerBytes = Number(new DataView(file).getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(file, 8, headerBytes)));
  delete header.__metadata__;
  const start = 8 + headerBytes;
  return Object.fromEntries(
    Object.entries(header).map(([name, {dtype, data_offsets: [begin, end]}]) => [
      name,
      // A copy, since an array of floats may only begin at a multiple of four.
      new KINDS[dtype](file.slice(start + begin, start + end)),
    ]),
  );
}
