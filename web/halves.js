// 16-bit floats between Python, which knows them as their bits, and JavaScript.

// A Float16Array as its bits; anything else as it is.
export function toBits(values) {
  if (values?.constructor?.name !== "Float16Array") return values;
  return new Uint16Array(values.buffer, values.byteOffset, values.length);
}

// Bits as a Float16Array, or the bits where the browser has none; anything else as it is.
export function fromBits(values) {
  if (!(values instanceof Uint16Array) || !globalThis.Float16Array) return values;
  return new Float16Array(values.buffer, values.byteOffset, values.length);
}

// Numbers to compute with, in every browser.
export function numbers(values) {
  const known = fromBits(values);
  return known instanceof Uint16Array ? Float32Array.from(known, value) : known;
}

function value(bits) {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -24 * fraction);
}
