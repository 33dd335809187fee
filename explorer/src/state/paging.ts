// Walking a long feed by pages: only the tokens of the pages seen are kept, never their rows.

export interface Paging {
  /** The continuation that fetches each page seen so far; the first page needs none. */
  readonly tokens: readonly (string | null)[];
  /** The page that is shown, from 0. */
  readonly index: number;
  /** Whether the page shown is the last one; unknown until it has been fetched. */
  readonly isLast: boolean;
}

export const FIRST_PAGE: Paging = { tokens: [null], index: 0, isLast: true };

/** The token that fetches the page shown. */
export function currentToken(paging: Paging): string | null {
  return paging.tokens[paging.index] ?? null;
}

/** The page shown has arrived, with the token of its successor. */
export function arrived(paging: Paging, continuation: string | null): Paging {
  const seen = paging.tokens.slice(0, paging.index + 1);
  const tokens = continuation === null ? seen : [...seen, continuation];
  return { tokens, index: paging.index, isLast: continuation === null };
}

export function nextPage(paging: Paging): Paging {
  return paging.isLast ? paging : { ...paging, index: paging.index + 1 };
}

export function previousPage(paging: Paging): Paging {
  return paging.index === 0 ? paging : { ...paging, index: paging.index - 1, isLast: false };
}

/** Answers to one page at most: where nearly nothing is found, a person sees what there is so far. */
export const ANSWERS_MAX = 20;

/**
 * Asks until a page is full or there is no more. An answer may end early, at the end of a range of the container or because it
 * took long; then what follows fills the rest. All answers come back, in their order.
 */
export async function fillPage<P extends { rows: readonly unknown[]; continuation: string | null }>(
  size: number, token: string | null, ask: (token: string | null, room: number) => Promise<P>,
): Promise<P[]> {
  const answers: P[] = [];
  let [room, at] = [size, token];
  do {
    const answer = await ask(at, room);
    answers.push(answer);
    room -= answer.rows.length;
    at = answer.continuation;
  } while (room > 0 && at !== null && answers.length < ANSWERS_MAX);
  return answers;
}
