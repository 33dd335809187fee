// Puts what a query says into the steps of its plan: the server names a step that filters, sorts or groups
// without the expression it does that by.
import type { PlanNode } from "../protocol/plan";

export interface Clauses {
  where: string | null;
  groupBy: string | null;
  orderBy: string | null;
}

const TOKEN = /--[^\n]*|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[A-Za-z_$@][\w$]*|[()[\]{}]|\s+|./gs;
/** Words that begin or end a clause of the outermost query. */
const HEADS = new Set(["select", "from", "where", "group", "order", "offset", "limit"]);

/** The clauses of the outermost query, with single spaces; null where it has none. */
export function clausesOf(text: string): Clauses {
  const found: Record<string, string> = {};
  let depth = 0;
  let clause: string | null = null;
  for (const [token] of text.matchAll(TOKEN)) {
    if (token.startsWith("--")) continue;
    if (/^[([{]$/.test(token)) depth++;
    if (/^[)\]}]$/.test(token)) depth--;
    const word = token.toLowerCase();
    if (depth === 0 && HEADS.has(word) && !found[clause ?? ""]?.trimEnd().endsWith(".")) {
      clause = word;
      found[clause] ??= "";
    } else if (clause !== null) found[clause] += /^\s+$/.test(token) ? " " : token;
  }
  const read = (name: string, lead = "") => {
    const body = found[name]?.trim().replace(new RegExp(`^${lead}\\s*`, "i"), "");
    return body ? body : null;
  };
  return { where: read("where"), groupBy: read("group", "by"), orderBy: read("order", "by") };
}

/** The plan with the query's own expressions where the server gave none. */
export function withClauses(plan: PlanNode, text: string): PlanNode {
  const clauses = clausesOf(text);
  const detailOf = ({ kind, detail }: PlanNode): string => {
    if (kind === "Filter" && detail === "") return clauses.where ?? "";
    const isCounted = /^by \d+ keys?$/.test(detail);
    if (kind === "Sort" && isCounted && clauses.orderBy !== null) return `by ${clauses.orderBy}`;
    if (kind === "Group" && isCounted && clauses.groupBy !== null) return `by ${clauses.groupBy}`;
    return detail;
  };
  const put = (node: PlanNode): PlanNode => ({ ...node, detail: detailOf(node), inputs: node.inputs.map(put) });
  return put(plan);
}
