/** The head of a model, a small network behind the mean: z = x + B relu(A x). */

export class Head {
  /**
   * @param {Float32Array} first A, [H x D]
   * @param {Float32Array} second B, [D x H]
   * @param {number} dimension D
   */
  constructor(first, second, dimension) {
    this.units = first.length / dimension;
    this.dimension = dimension;
    // Unit by unit, so that those that are off take no time.
    this._in = Float64Array.from(first);
    this._out = transposed(second, this.units);
  }

  /**
   * What a vector gives to the hidden units, [H].
   * @param {Float64Array} vector [D]
   */
  hidden(vector) {
    const values = new Float64Array(this.units);
    for (let unit = 0; unit < this.units; unit++) {
      const start = unit * this.dimension;
      let sum = 0;
      for (let i = 0; i < this.dimension; i++) sum += this._in[start + i] * vector[i];
      values[unit] = sum;
    }
    return values;
  }

  /**
   * A vector behind the head: with the hidden units that are on.
   * @param {Float64Array} vector [D]
   * @param {Float64Array} hidden What it gives to the units, [H].
   * @param {boolean[]} isOn [H]
   */
  behind(vector, hidden, isOn) {
    const result = Float64Array.from(vector);
    for (let unit = 0; unit < this.units; unit++) {
      if (!isOn[unit]) continue;
      const start = unit * this.dimension;
      for (let i = 0; i < this.dimension; i++) result[i] += hidden[unit] * this._out[start + i];
    }
    return result;
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
 * @param {Float32Array} matrix [D x H]
 * @param {number} width H
 * @returns {Float64Array} [H x D]
 */
function transposed(matrix, width) {
  const height = matrix.length / width;
  const result = new Float64Array(matrix.length);
  matrix.forEach((value, place) => {
    result[(place % width) * height + Math.floor(place / width)] = value;
  });
  return result;
}
