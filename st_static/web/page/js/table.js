/**
 * The table of word vectors: whole numbers from -127 to 127, and a scale for each row, or for each
 * segment of a row in a fused ensemble.
 */

export class Table {
  /**
   * @param {Int8Array} rows [V x D]
   * @param {Float32Array} scales [V x L]
   * @param {number[]} widths Number of dimensions of each segment, [L]; of one, it may be left out.
   */
  constructor(rows, scales, widths = [rows.length / scales.length]) {
    this.rows = rows;
    this.scales = scales;
    this.widths = widths;
    this.dimension = widths.reduce((sum, width) => sum + width, 0);
  }

  /**
   * Whether a token has no vector.
   * @param {number} id
   */
  isZero(id) {
    const count = this.widths.length;
    return this.scales.subarray(id * count, (id + 1) * count).every((scale) => scale === 0);
  }

  /**
   * The sum of rows, [D].
   * @param {number[]} ids
   * @returns {Float64Array}
   */
  sum(ids) {
    const total = new Float64Array(this.dimension);
    for (const id of ids) {
      const row = id * this.dimension;
      let start = 0;
      this.widths.forEach((width, segment) => {
        const scale = this.scales[id * this.widths.length + segment];
        const end = start + width;
        for (let i = start; i < end; i++) total[i] += scale * this.rows[row + i];
        start = end;
      });
    }
    return total;
  }
}
