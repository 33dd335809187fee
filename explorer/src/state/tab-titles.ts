// What tabs are called: as short as tells them apart.
import type { Route } from "./tabs";

const SCRIPT_WORDS = { sprocs: "procedure", triggers: "trigger", udfs: "function" } as const;

/** Names for a route, the shortest first; the last one no other route has. */
function namesOf(route: Route): string[] {
  switch (route.kind) {
    case "metrics": return ["Metrics"];
    case "nodes": return ["Nodes"];
    case "roles": return ["Roles"];
    case "database": return [route.database, `${route.database} database`];
    case "users": return [`${route.database} users`];
    case "model": return [`${route.database} model`];
    case "items": return within(route, route.container, " items");
    case "query": return within(route, `${route.container} query`);
    case "feed": return within(route, `${route.container} change feed`);
    case "settings": return within(route, `${route.container} settings`);
    case "script": {
      const name = route.script || `New ${SCRIPT_WORDS[route.scripts]}`;
      const inContainer = `${route.container} / ${name}`;
      return [name, inContainer, `${route.database} / ${inContainer}`, `${route.database} / ${inContainer} ${SCRIPT_WORDS[route.scripts]}`];
    }
  }
}

function within({ database }: { database: string }, name: string, kind = ""): string[] {
  return [name, `${database} / ${name}`, `${database} / ${name}${kind}`];
}

/** A title for each route, different from all others. */
export function titlesOf(routes: readonly Route[]): string[] {
  const names = routes.map(namesOf);
  const at = (own: readonly string[], level: number) => own[Math.min(level, own.length - 1)]!;
  return names.map((own, index) => {
    const isTaken = (title: string, level: number) => names.some((other, place) => place !== index && at(other, level) === title);
    const level = own.findIndex((title, one) => !isTaken(title, one));
    return at(own, level < 0 ? own.length - 1 : level);
  });
}
