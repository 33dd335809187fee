// How long something took or lasts, in its largest unit.

const UNITS: readonly (readonly [number, string])[] = [[86_400, "d"], [3600, "h"], [60, "min"]];

/** `42 s`, `5 min`, `3 h`, `12 d`; what is less than the unit is cut off. */
export function elapsedText(seconds: number): string {
  const [size, unit] = UNITS.find(([size]) => seconds >= size) ?? [1, "s"];
  return `${Math.floor(Math.max(0, seconds) / size).toLocaleString("en")} ${unit}`;
}
