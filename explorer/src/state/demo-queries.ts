// The queries of `orrery demo`, each before and after a model. They are offered where their databases are.
import all from "../../../crates/cli/demo/queries.json";
import { signal } from "@preact/signals";
import { open } from "./tabs";

export interface DemoQuery {
  database: string;
  container: string;
  text: string;
}

export interface DemoPair {
  title: string;
  about: string;
  before: DemoQuery;
  after: DemoQuery;
}

/** The pairs whose databases exist. */
export function demoPairs(databases: readonly string[]): DemoPair[] {
  return all.filter(({ before, after }) => databases.includes(before.database) && databases.includes(after.database));
}

/** Those of one container, by name. */
export function demoQueriesOf(database: string, container: string): { name: string; text: string }[] {
  return all.flatMap(({ title, before, after }) =>
    ([["before", before], ["after", after]] as const)
      .filter(([, query]) => query.database === database && query.container === container)
      .map(([when, { text }]) => ({ name: `${title} (${when})`, text })));
}

/** A query that the view of its container is to take and run. */
export const wantedQuery = signal<DemoQuery | null>(null);

/** Shows a query in the tab of its container, and runs it. */
export function openQuery(query: DemoQuery): void {
  wantedQuery.value = query;
  open({ kind: "query", database: query.database, container: query.container });
}
