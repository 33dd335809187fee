// HMAC-SHA256 in plain TypeScript. Browsers offer WebCrypto on secure origins only; a page that came
// over plain HTTP from another machine still has to sign. Used there and nowhere else.

const BLOCK_BYTES = 64;

/** The first 32 bits of the fractional part of `root(prime)`, for the first `count` primes. */
function fractions(count: number, root: (prime: number) => number): Uint32Array {
  const words = new Uint32Array(count);
  for (let candidate = 2, found = 0; found < count; candidate++) {
    let isPrime = true;
    for (let divisor = 2; divisor * divisor <= candidate; divisor++) {
      if (candidate % divisor === 0) isPrime = false;
    }
    if (isPrime) words[found++] = Math.floor((root(candidate) % 1) * 2 ** 32);
  }
  return words;
}

const INITIAL = fractions(8, Math.sqrt);
const ROUND = fractions(64, Math.cbrt);

const rotate = (word: number, bits: number) => (word >>> bits) | (word << (32 - bits));

export function sha256(message: Uint8Array): Uint8Array {
  const blocks = Math.ceil((message.length + 9) / BLOCK_BYTES);
  const padded = new Uint8Array(blocks * BLOCK_BYTES);
  padded.set(message);
  padded[message.length] = 0x80;
  const view = new DataView(padded.buffer);
  view.setUint32(padded.length - 8, Math.floor(message.length / 2 ** 29));
  view.setUint32(padded.length - 4, message.length << 3);

  const hash = INITIAL.slice();
  const schedule = new Uint32Array(64);
  for (let offset = 0; offset < padded.length; offset += BLOCK_BYTES) compress(hash, schedule, view, offset);

  const digest = new Uint8Array(32);
  hash.forEach((word, index) => new DataView(digest.buffer).setUint32(index * 4, word));
  return digest;
}

function compress(hash: Uint32Array, schedule: Uint32Array, view: DataView, offset: number): void {
  for (let i = 0; i < 16; i++) schedule[i] = view.getUint32(offset + i * 4);
  for (let i = 16; i < 64; i++) {
    const before = schedule[i - 15]!;
    const near = schedule[i - 2]!;
    const low = rotate(before, 7) ^ rotate(before, 18) ^ (before >>> 3);
    const high = rotate(near, 17) ^ rotate(near, 19) ^ (near >>> 10);
    schedule[i] = schedule[i - 16]! + low + schedule[i - 7]! + high;
  }
  let [a, b, c, d, e, f, g, h] = hash as unknown as [
    number, number, number, number, number, number, number, number,
  ];
  for (let i = 0; i < 64; i++) {
    const mixE = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25);
    const choice = (e & f) ^ (~e & g);
    const first = (h + mixE + choice + ROUND[i]! + schedule[i]!) | 0;
    const mixA = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22);
    const majority = (a & b) ^ (a & c) ^ (b & c);
    h = g;
    g = f;
    f = e;
    e = (d + first) | 0;
    d = c;
    c = b;
    b = a;
    a = (first + mixA + majority) | 0;
  }
  [a, b, c, d, e, f, g, h].forEach((word, index) => {
    hash[index] = hash[index]! + word;
  });
}

export function hmacSha256(key: Uint8Array, message: Uint8Array): Uint8Array {
  const block = new Uint8Array(BLOCK_BYTES);
  block.set(key.length > BLOCK_BYTES ? sha256(key) : key);
  const inner = sha256(concat(block.map((byte) => byte ^ 0x36), message));
  return sha256(concat(block.map((byte) => byte ^ 0x5c), inner));
}

function concat(first: Uint8Array, second: Uint8Array): Uint8Array {
  const both = new Uint8Array(first.length + second.length);
  both.set(first);
  both.set(second, first.length);
  return both;
}
