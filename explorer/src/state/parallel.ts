// Work on many things with a bounded number under way at once.

/** Calls `work` for each, at most `limit` at a time; fails with the first failure once all have ended. */
export async function inParallel<T>(all: readonly T[], limit: number, work: (one: T) => Promise<void>): Promise<void> {
  let next = 0;
  const take = async () => {
    while (next < all.length) await work(all[next++]!);
  };
  const outcomes = await Promise.allSettled(Array.from({ length: Math.min(limit, all.length) }, take));
  const failed = outcomes.find((outcome) => outcome.status === "rejected");
  if (failed) throw failed.reason;
}
