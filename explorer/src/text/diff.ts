// The difference of two texts by lines, as a shortest edit script (Myers, 1986).

export interface DiffLine {
  kind: "same" | "removed" | "added";
  text: string;
}

/** Beyond this many edits the middle is shown as removed and added whole: nobody reads more. */
const EDITS_MAX = 2000;

export function diffLines(before: string, after: string): DiffLine[] {
  const old = before.split("\n");
  const now = after.split("\n");
  let head = 0;
  while (head < old.length && head < now.length && old[head] === now[head]) head++;
  let tail = 0;
  while (tail < old.length - head && tail < now.length - head && old.at(-1 - tail) === now.at(-1 - tail)) tail++;

  const same = (lines: string[]): DiffLine[] => lines.map((text) => ({ kind: "same", text }));
  return [
    ...same(old.slice(0, head)),
    ...middle(old.slice(head, old.length - tail), now.slice(head, now.length - tail)),
    ...same(old.slice(old.length - tail)),
  ];
}

function middle(old: string[], now: string[]): DiffLine[] {
  const trace = search(old, now);
  if (trace === null) {
    return [
      ...old.map((text): DiffLine => ({ kind: "removed", text })),
      ...now.map((text): DiffLine => ({ kind: "added", text })),
    ];
  }
  const lines: DiffLine[] = [];
  let x = old.length;
  let y = now.length;
  for (let edits = trace.length - 1; edits >= 0; edits--) {
    const reached = trace[edits]!;
    const diagonal = x - y;
    const isDown = diagonal === -edits || (diagonal !== edits && at(reached, diagonal - 1) < at(reached, diagonal + 1));
    const previous = isDown ? diagonal + 1 : diagonal - 1;
    const fromX = edits === 0 ? 0 : at(reached, previous);
    const fromY = edits === 0 ? 0 : fromX - previous;
    while (x > fromX && y > fromY) {
      if (edits > 0 && x === fromX + (isDown ? 0 : 1) && y === fromY + (isDown ? 1 : 0)) break;
      lines.push({ kind: "same", text: old[--x]! });
      y--;
    }
    if (edits === 0) break;
    if (isDown) lines.push({ kind: "added", text: now[--y]! });
    else lines.push({ kind: "removed", text: old[--x]! });
  }
  return lines.reverse();
}

const at = (reached: Map<number, number>, diagonal: number) => reached.get(diagonal) ?? -1;

/** For each number of edits, how far each diagonal was reached before it; null if too many. */
function search(old: string[], now: string[]): Map<number, number>[] | null {
  const trace: Map<number, number>[] = [];
  let reached = new Map<number, number>([[1, 0]]);
  for (let edits = 0; edits <= Math.min(old.length + now.length, EDITS_MAX); edits++) {
    trace.push(new Map(reached));
    const next = new Map(reached);
    for (let diagonal = -edits; diagonal <= edits; diagonal += 2) {
      const isDown =
        diagonal === -edits || (diagonal !== edits && at(next, diagonal - 1) < at(next, diagonal + 1));
      let x = isDown ? at(next, diagonal + 1) : at(next, diagonal - 1) + 1;
      let y = x - diagonal;
      while (x < old.length && y < now.length && old[x] === now[y]) {
        x++;
        y++;
      }
      next.set(diagonal, x);
      if (x >= old.length && y >= now.length) return trace;
    }
    reached = next;
  }
  return null;
}
