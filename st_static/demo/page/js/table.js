/** The table of word vectors: whole numbers from -127 to 127, and a scale for each row. */

export class Table {
  /**
   * @param {Int8Array} rows [V x D]
   * @param {Float32Array} scales [V]
   */
  constructor(rows, scales) {
    this.rows = rows;
    this.scales = scales;
    this.dimension = rows.length / scales.length;
  }

  /**
   * Whether a token has no vector.
   * @param {number} id
   */
  isZero(id) {
    return this.scales[id] === 0;
  }

  /**
   * The sum of rows, [D].
   * @param {number[]} ids
   * @returns {Float64Array}
   */
  sum(ids) {
    const total = new Float64Array(this.dimension);
    for (const id of ids) {
      const scale = this.scales[id];
      const start = id * this.dimension;
      for (let i = 0; i < this.dimension; i++) total[i] += scale * this.rows[start + i];
    }
    return total;
  }
}
