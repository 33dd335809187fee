// Axes: round numbers that span the data, and how to write them.

/** About `count` round values that span from `low` to `high`. */
export function ticks(low: number, high: number, count: number): number[] {
  if (!(high > low)) return [low];
  const rough = (high - low) / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= rough)!;
  const first = Math.floor(low / step);
  const last = Math.ceil(high / step - 1e-9);
  // Multiples instead of sums: sums of fractions drift.
  return Array.from({ length: last - first + 1 }, (_, index) => Number(((first + index) * step).toPrecision(12)));
}

/** A number in few characters: 12.3k, 4.5M. */
export function shortNumber(value: number): string {
  const size = Math.abs(value);
  const [divisor, unit] = size >= 1e9 ? [1e9, "G"] : size >= 1e6 ? [1e6, "M"] : size >= 1e4 ? [1e3, "k"] : [1, ""];
  const text = (value / divisor).toPrecision(size / divisor >= 1000 ? 4 : 3);
  return `${Number(text)}${unit}`;
}
