// The query language in the editor: colours by a small tokenizer, completion of keywords, functions and
// of the paths that were seen in the container's items.
import { type Completion, type CompletionContext, type CompletionResult, autocompletion } from "@codemirror/autocomplete";
import { LanguageSupport, StreamLanguage, type StringStream } from "@codemirror/language";
import type { Extension } from "@codemirror/state";
import { tags } from "@lezer/highlight";
import type { SeenPaths } from "../state/seen-paths";
import { FUNCTIONS } from "./functions";

export const KEYWORDS = [
  "SELECT", "VALUE", "DISTINCT", "TOP", "AS", "FROM", "IN", "JOIN", "WHERE", "AND", "OR", "NOT", "BETWEEN", "LIKE", "ESCAPE",
  "EXISTS", "ARRAY", "ALL", "FIRST", "LAST", "GROUP BY", "ORDER BY", "ORDER BY RANK", "ASC", "DESC", "OFFSET", "LIMIT",
  "true", "false", "null", "undefined",
];

const WORDS = new Set(KEYWORDS.flatMap((keyword) => keyword.split(" ")).map((word) => word.toLowerCase()));
const NAMES = new Set(Object.values(FUNCTIONS).flat().map((name) => name.toLowerCase()));
const ATOMS = new Set(["true", "false", "null", "undefined"]);

interface TokenState {
  isInComment: boolean;
}

function token(stream: StringStream, state: TokenState): string | null {
  if (state.isInComment || stream.match("/*")) {
    state.isInComment = !stream.match(/^.*?\*\//);
    if (state.isInComment) stream.skipToEnd();
    return "comment";
  }
  if (stream.eatSpace()) return null;
  if (stream.match("--")) {
    stream.skipToEnd();
    return "comment";
  }
  if (stream.match(/^"(?:[^"\\]|\\.)*"?/) || stream.match(/^'(?:[^'\\]|\\.)*'?/)) return "string";
  if (stream.match(/^@\w+/)) return "parameter";
  if (stream.match(/^\.\s*[A-Za-z_$][\w$]*/)) return "propertyName";
  if (stream.match(/^(?:0x[\da-f]+|\d+(?:\.\d+)?(?:e[-+]?\d+)?)/i)) return "number";
  const word = stream.match(/^[A-Za-z_$][\w$]*/) as RegExpMatchArray | null;
  if (word) return wordKind(word[0].toLowerCase(), stream.peek() === "(");
  stream.next();
  return null;
}

function wordKind(word: string, isCalled: boolean): string | null {
  if (ATOMS.has(word)) return "atom";
  if (NAMES.has(word) && isCalled) return "function";
  if (WORDS.has(word)) return "keyword";
  return null;
}

const LANGUAGE = StreamLanguage.define<TokenState>({
  name: "query",
  startState: () => ({ isInComment: false }),
  token,
  tokenTable: {
    parameter: tags.special(tags.variableName),
    function: tags.function(tags.variableName),
    propertyName: tags.propertyName,
  },
  languageData: { commentTokens: { line: "--", block: { open: "/*", close: "*/" } }, closeBrackets: { brackets: ["(", "[", "{", "'", '"'] } },
});

const WORD_OPTIONS: readonly Completion[] = [
  ...KEYWORDS.map((label): Completion => ({ label, type: "keyword" })),
  ...Object.entries(FUNCTIONS).flatMap(([topic, names]) =>
    names.map((label): Completion => ({ label, type: "function", detail: topic, apply: `${label}(` })),
  ),
];

/** What may stand at a place; `functions` are the container's own. */
export function complete(
  textBefore: string, at: number, seen: SeenPaths, functions: readonly string[],
): CompletionResult | null {
  const path = /([A-Za-z_$][\w$]*)((?:\.[A-Za-z_$][\w$]*|\[\d+\])*)\.([\w$]*)$/.exec(textBefore);
  if (path) {
    const [, alias, middle, last] = path as unknown as [string, string, string, string];
    const from = at - last.length;
    if (alias.toLowerCase() === "udf") return { from, options: functions.map((label) => ({ label, type: "function", apply: `${label}(` })) };
    const names = middle.split(/\.|\[\d+\]/).filter((name) => name !== "");
    return { from, options: seen.below(names).map(({ name, type }) => ({ label: name, type: "property", detail: type })) };
  }
  const word = /[A-Za-z_$][\w$]*$/.exec(textBefore);
  if (!word) return null;
  return { from: at - word[0].length, options: [...WORD_OPTIONS], validFor: /^[\w$]*$/ };
}

export function queryLanguage(seen: () => SeenPaths, functions: () => readonly string[]): Extension {
  const source = (context: CompletionContext): CompletionResult | null => {
    const before = context.state.sliceDoc(0, context.pos);
    const result = complete(before, context.pos, seen(), functions());
    const isEmpty = result?.from === context.pos && !before.endsWith(".");
    return isEmpty && !context.explicit ? null : result;
  };
  return [new LanguageSupport(LANGUAGE), autocompletion({ override: [source], icons: false })];
}
