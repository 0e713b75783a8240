/** The head of a model, a small network behind the mean: z = x + B relu(A x). */

// Sums side by side: one alone waits for each of its steps.
const AT_ONCE = 4;

export class Head {
  /**
   * @param {Float32Array} first A, [H x D]
   * @param {Float32Array} second B, [D x H]
   * @param {number} dimension D
   */
  constructor(first, second, dimension) {
    this.units = first.length / dimension;
    this.dimension = dimension;
    // With units of zeros behind the last, which fill up its group.
    this._in = new Float64Array(Math.ceil(this.units / AT_ONCE) * AT_ONCE * dimension);
    this._in.set(first);
    // Unit by unit, so that those that are off take no time.
    this._out = transposed(second, this.units);
  }

  /**
   * What a vector gives to the hidden units, [H].
   * @param {Float64Array} vector [D]
   */
  hidden(vector) {
    const width = this.dimension;
    const weights = this._in;
    const values = new Float64Array(weights.length / width);
    for (let unit = 0; unit < values.length; unit += AT_ONCE) {
      const start = unit * width;
      let [first, second, third, fourth] = [0, 0, 0, 0];
      for (let i = 0; i < width; i++) {
        const place = start + i;
        first += weights[place] * vector[i];
        second += weights[place + width] * vector[i];
        third += weights[place + 2 * width] * vector[i];
        fourth += weights[place + 3 * width] * vector[i];
      }
      values.set([first, second, third, fourth], unit);
    }
    return values.subarray(0, this.units);
  }

  /**
   * A vector behind the head: with the hidden units that are on.
   * @param {Float64Array} vector [D]
   * @param {Float64Array} hidden What it gives to the units, [H].
   * @param {boolean[]} isOn [H]
   */
  behind(vector, hidden, isOn) {
    const result = Float64Array.from(vector);
    const weights = this._out;
    for (let unit = 0; unit < this.units; unit++) {
      if (!isOn[unit]) continue;
      const value = hidden[unit];
      const start = unit * this.dimension;
      for (let i = 0; i < result.length; i++) result[i] += value * weights[start + i];
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
