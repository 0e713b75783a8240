/** Sums over vectors. */

/** @typedef {Float64Array | Float32Array} Vector */

/**
 * @param {Vector} one
 * @param {Vector} other
 */
export function dot(one, other) {
  let sum = 0;
  for (let i = 0; i < one.length; i++) sum += one[i] * other[i];
  return sum;
}

/** @param {Vector} vector */
export function norm(vector) {
  return Math.sqrt(dot(vector, vector));
}

/**
 * Multiply a vector, in its place.
 * @param {Vector} vector
 * @param {number} factor
 */
export function scale(vector, factor) {
  for (let i = 0; i < vector.length; i++) vector[i] *= factor;
}

/**
 * The sum of vectors of one length.
 * @param {Float64Array[]} vectors
 * @param {number} dimension
 */
export function total(vectors, dimension) {
  const sum = new Float64Array(dimension);
  for (const vector of vectors) vector.forEach((value, i) => (sum[i] += value));
  return sum;
}
