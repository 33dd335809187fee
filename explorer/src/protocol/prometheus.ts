// The text that `/metrics` speaks: families of samples, each with labels and a number.

export interface Sample {
  labels: Readonly<Record<string, string>>;
  value: number;
}

export interface Family {
  name: string;
  kind: string;
  help: string;
  samples: Sample[];
}

const LINE = /^([A-Za-z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)/;
const LABEL = /([A-Za-z_]\w*)="((?:[^"\\]|\\.)*)"/g;

/** Reads the text. A histogram's buckets, sum and count are families of their own. */
export function readMetrics(text: string): Map<string, Family> {
  const families = new Map<string, Family>();
  const family = (name: string): Family => {
    let found = families.get(name);
    if (!found) families.set(name, (found = { name, kind: "untyped", help: "", samples: [] }));
    return found;
  };
  for (const line of text.split("\n")) {
    const comment = /^# (HELP|TYPE) (\S+) (.*)$/.exec(line);
    if (comment) {
      const about = family(comment[2]!);
      if (comment[1] === "TYPE") about.kind = comment[3]!;
      else about.help = comment[3]!;
      continue;
    }
    const parts = line.startsWith("#") ? null : LINE.exec(line);
    if (!parts) continue;
    const labels: Record<string, string> = {};
    for (const [, name, value] of (parts[2] ?? "").matchAll(LABEL)) {
      labels[name!] = value!.replace(/\\(.)/g, (_, char: string) => (char === "n" ? "\n" : char));
    }
    family(parts[1]!).samples.push({ labels, value: parts[3] === "+Inf" ? Infinity : Number(parts[3]) });
  }
  return families;
}

/** The buckets of a histogram, summed over all labels but `le`, by their upper bound. */
export function buckets(family: Family | undefined, isWanted: (labels: Sample["labels"]) => boolean): Map<number, number> {
  const sums = new Map<number, number>();
  for (const { labels, value } of family?.samples ?? []) {
    if (!isWanted(labels)) continue;
    const bound = labels.le === "+Inf" ? Infinity : Number(labels.le);
    sums.set(bound, (sums.get(bound) ?? 0) + value);
  }
  return sums;
}

/** A percentile of what fell into the buckets between two readings; null if nothing did. */
export function percentile(before: Map<number, number>, now: Map<number, number>, share: number): number | null {
  const bounds = [...now.keys()].sort((a, b) => a - b);
  const counts = bounds.map((bound) => now.get(bound)! - (before.get(bound) ?? 0));
  const total = counts.at(-1) ?? 0;
  if (total <= 0) return null;
  const wanted = total * share;
  const at = counts.findIndex((count) => count >= wanted);
  const low = at === 0 ? 0 : bounds[at - 1]!;
  const high = bounds[at]!;
  if (high === Infinity) return low;
  const below = at === 0 ? 0 : counts[at - 1]!;
  const inside = counts[at]! - below;
  return inside === 0 ? high : low + (high - low) * ((wanted - below) / inside);
}

/** A reading: when, and every sample that there was. */
export interface Reading {
  at: number;
  families: Map<string, Family>;
}

/** What `/metrics/history` answers: of each reading the time, and then pairs of a sample's number and its new value. */
export interface History {
  kinds: Readonly<Record<string, string>>;
  names: readonly string[];
  oldest: readonly number[];
  readings: readonly (readonly [number, ...number[]])[];
}

/** The readings of a history, each whole again. */
export function readHistory({ kinds, names, oldest, readings }: History): Reading[] {
  const places = names.map((name) => {
    const [family] = readMetrics(`${name} 0`).values();
    return { name: family?.name ?? name, labels: family?.samples[0]?.labels ?? {} };
  });
  const values = [...oldest];
  return readings.map(([at, ...changes]) => {
    for (let i = 0; i < changes.length; i += 2) values[changes[i]!] = changes[i + 1]!;
    const families = new Map<string, Family>();
    places.forEach(({ name, labels }, number) => {
      const kind = kinds[name] ?? "untyped";
      const family = families.get(name) ?? { name, kind, help: "", samples: [] };
      family.samples.push({ labels, value: values[number] ?? 0 });
      families.set(name, family);
    });
    return { at, families };
  });
}
