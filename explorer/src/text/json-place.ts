// Where in a JSON text the value at a path stands, so that a fault the server names can be marked.

export interface Place {
  from: number;
  to: number;
}

const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g;

/**
 * The place of a path such as `/relations/0/to`, or of the nearest value around it. Names stand in
 * the path as they are, so one that holds a slash is still found. Of an object or array only the name
 * before it, or its bracket, is given: marking all of it would say nothing.
 */
export function placeOf(text: string, path: string): Place | null {
  let best: { path: string; place: Place } | null = null;
  const offer = (at: string, place: Place) => {
    const isAround = at === "" || path === at || path.startsWith(`${at}/`);
    if (isAround && (best === null || at.length > best.path.length)) best = { path: at, place };
  };
  const tokens = [...text.matchAll(TOKEN)];
  let next = 0;
  const value = (at: string, name: Place | null): void => {
    const token = tokens[next++];
    if (!token) return;
    const own = { from: token.index, to: token.index + token[0].length };
    const isNested = token[0] === "{" || token[0] === "[";
    offer(at, name === null ? own : { from: name.from, to: isNested ? name.to : own.to });
    if (!isNested) return;
    for (let index = 0; next < tokens.length; index++) {
      const first = tokens[next]!;
      if (first[0] === "}" || first[0] === "]") break;
      if (token[0] === "{") {
        next += 2;
        value(`${at}/${nameOf(first[0])}`, { from: first.index, to: first.index + first[0].length });
      } else value(`${at}/${index}`, null);
      if (tokens[next]?.[0] !== ",") break;
      next++;
    }
    next++;
  };
  value("", null);
  return (best as { place: Place } | null)?.place ?? null;
}

function nameOf(quoted: string): string {
  try {
    return String(JSON.parse(quoted));
  } catch {
    return quoted;
  }
}
