/** The head of a model, a small network behind the mean: z = x + B relu(A x). */

import {dot} from "./vectors.js";

export class Head {
  /**
   * @param {Float32Array} first A, [H x D]
   * @param {Float32Array} second B, [D x H]
   * @param {number} dimension D
   */
  constructor(first, second, dimension) {
    this.units = first.length / dimension;
    this.first = rowsOf(first, dimension);
    this.second = rowsOf(second, this.units);
  }

  /**
   * What a vector gives to the hidden units, [H].
   * @param {Float64Array} vector
   */
  hidden(vector) {
    return Float64Array.from(this.first, (row) => dot(row, vector));
  }

  /**
   * A vector behind the head: with the hidden units that are on.
   * @param {Float64Array} vector [D]
   * @param {Float64Array} hidden What it gives to them, [H].
   * @param {boolean[]} isOn [H]
   */
  behind(vector, hidden, isOn) {
    const counted = hidden.map((value, unit) => (isOn[unit] ? value : 0));
    return vector.map((value, i) => value + dot(this.second[i], counted));
  }

  /**
   * Which units a whole text switches on.
   * @param {Float64Array} hidden [H]
   */
  switchedOn(hidden) {
    return Array.from(hidden, (value) => value > 0);
  }

  /**
   * A text's vector behind the head.
   * @param {Float64Array} vector [D]
   */
  apply(vector) {
    const hidden = this.hidden(vector);
    return this.behind(vector, hidden, this.switchedOn(hidden));
  }
}

/**
 * @param {Float32Array} matrix
 * @param {number} width
 */
function rowsOf(matrix, width) {
  const count = matrix.length / width;
  return Array.from({length: count}, (_, i) => matrix.subarray(i * width, (i + 1) * width));
}
