// How far two results are apart: the largest difference as a share of the largest value.
//
// Typed arrays of equal length; a Uint16Array holds the bits of halves. NaN in one alone is Infinity.
(() => {
  "use strict";
  function half(bits) {
    const sign = bits & 0x8000 ? -1 : 1, exponent = (bits >> 10) & 31, fraction = bits & 1023;
    if (exponent === 31) return fraction ? NaN : sign * Infinity;
    return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -14 * (fraction / 1024));
  }

  return (a, b) => {
    const number = a instanceof Uint16Array ? half : (value) => value;
    let apart = 0, largest = 0;
    for (let i = 0; i < a.length; i++) {
      const one = number(a[i]), other = number(b[i]);
      if (one === other || (one !== one && other !== other)) continue;
      const difference = Math.abs(one - other);
      if (!(difference <= apart)) apart = difference === difference ? difference : Infinity;
    }
    for (let i = 0; apart > 0 && i < b.length; i++) largest = Math.max(largest, Math.abs(number(b[i])) || 0);
    return apart > 0 ? apart / largest : 0;
  };
})()
