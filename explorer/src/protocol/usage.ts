// What a container holds, out of a header of `name=value;` pairs.

export function readUsage(header: string | null): Record<string, number> {
  const pairs = (header ?? "").split(";").map((pair) => pair.split("="));
  return Object.fromEntries(pairs.filter(([name]) => name).map(([name, value]) => [name, Number(value)]));
}
